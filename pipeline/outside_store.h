// OutsideStore: one place outside of the pool where images lie: the machine's memory, a file. One
// kind is one class, and tests/pipeline/outside_stores_test.cc runs over all of them. Its bytes
// outlive the worker: a successor opens the same. Not thread-safe: one thread saves and loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "memory/device/device.h"
#include "memory/pool_access.h"
#include "pipeline/goes_on.h"

namespace laneway::pipeline {

// Told of each piece, in their order, that the image's first `bytes` are there for what waits for
// `there` (null: for everybody).
using Started = std::function<void(Bytes bytes, std::shared_ptr<memory::Event> there)>;

class OutsideStore {
 public:
  virtual ~OutsideStore() = default;

  virtual Bytes size() const = 0;
  // Its bytes where they lie in the CPU's memory; null: save and load alone reach them.
  virtual std::byte* in_memory() const = 0;
  // A copy may take any time for a reason that nobody here sees: no other store's copy waits for
  // it.
  virtual bool may_stall() const = 0;

  // Copies `size` bytes of the pool to `at`; their checksum (0: the store keeps what it gets).
  // Errors: cancelled; out_of_memory; failed when the store does not take them; device_lost.
  // Requires, here and of load: the range is inside of the store.
  virtual Result<uint64_t> save(memory::PoolAccess& pool, const std::byte* image, Bytes size,
                                Bytes at, const GoesOn& goes_on) = 0;

  // An image as it was saved.
  struct Saved {
    Bytes at;
    Bytes size;
    uint64_t checksum = 0;
  };
  // Copies what is behind the first `there` bytes of the image back to `image`, where those are
  // already; failed, too, when the whole is not what was saved. Nothing is under way when it
  // returns.
  virtual Status load(memory::PoolAccess& pool, std::byte* image, const Saved& saved, Bytes there,
                      const GoesOn& goes_on, const Started& started) = 0;
};

}  // namespace laneway::pipeline
