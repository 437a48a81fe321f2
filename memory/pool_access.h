// PoolAccess: the bytes of a pool as the CPU gets at them: for images that are placed, state that
// is read and written, regions that are cleared. Whatever else uses those bytes must be done before
// the call, and begins after it: all calls return when their bytes are there. Thread-safe.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/result.h"

namespace laneway::memory {

class PoolAccess {
 public:
  virtual ~PoolAccess() = default;

  // Errors: invalid_argument when the pool's side is not inside the pool, device_lost when the
  // device failed.
  virtual Status write(void* to_pool, const void* from, Bytes bytes) = 0;
  virtual Status read(void* to, const void* from_pool, Bytes bytes) = 0;
  virtual Status fill(void* to_pool, std::byte value, Bytes bytes) = 0;
};

}  // namespace laneway::memory
