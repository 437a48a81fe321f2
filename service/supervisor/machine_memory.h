// MachineMemory: how much memory there is for this process, and how much of it is free now: the
// machine's, or less where a control group (a container) allows less. Value type.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace laneway::service {

struct MachineMemory {
  Bytes total;
  Bytes free;  // what can be had without swapping

  // `root` is put before /proc and /sys, for tests. Error failed when the system does not say.
  static Result<MachineMemory> read(const std::string& root = "");
};

// The pool to make: `wanted`, or half of what is free when it is 0; a multiple of the device's
// alignment. Error out_of_memory, with the arithmetic, when more is wanted than is free;
// invalid_argument when `reserve` would leave nothing.
Result<Bytes> choose_pool(Bytes wanted, Bytes reserve, const MachineMemory& memory);

// The most that the recovery memory may take: `wanted`, or as much as the pool and at most half of
// what is left free when none is; in pages, 0: there is none. `beside`: what the pool takes of the
// machine's memory. Error out_of_memory, with the arithmetic, when more is wanted than is left;
// invalid_argument when it is too small to be one.
Result<Bytes> choose_recovery(std::optional<Bytes> wanted, Bytes pool, Bytes beside,
                              const MachineMemory& memory);

// The most that the host store may take: `wanted`, or as much as the pool and at most half of what
// is left free when none is; in pages, 0: there is none. `beside`: what pool and recovery memory
// take of the machine's memory. Error out_of_memory, with the arithmetic.
Result<Bytes> choose_store(std::optional<Bytes> wanted, Bytes pool, Bytes beside,
                           const MachineMemory& memory);

}  // namespace laneway::service
