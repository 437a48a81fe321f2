// PoolAccess: how the CPU reads and writes the bytes of a pool: to place images, to read and write
// state, to clear regions. All calls return when their bytes are there. Requires: no other work on
// the same bytes runs during a call. Thread-safe.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/result.h"

namespace laneway::memory {

class PoolAccess {
 public:
  virtual ~PoolAccess() = default;

  // Errors: invalid_argument when the range is not inside the pool, device_lost when the device
  // failed.
  virtual Status write(void* to_pool, const void* from, Bytes bytes) = 0;
  virtual Status read(void* to, const void* from_pool, Bytes bytes) = 0;
  // Inside the pool, over no link. Requires: the ranges do not overlap.
  virtual Status copy_within(void* to_pool, const void* from_pool, Bytes bytes) = 0;
  virtual Status fill(void* to_pool, std::byte value, Bytes bytes) = 0;
};

}  // namespace laneway::memory
