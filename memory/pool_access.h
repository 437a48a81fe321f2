// PoolAccess: how the CPU reads and writes the bytes of a pool: to place images, to read and write
// state, to clear regions. All calls return when their bytes are there. Requires: no other work on
// the same bytes runs during a call. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "memory/device/device.h"

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

  // Gives the memory of a range that nobody uses to the machine until it is written again; what it
  // held is lost. Returns whether this pool's memory can be given back; otherwise nothing happens.
  virtual bool give_back(std::byte* in_pool, Bytes bytes);

  // How much a caller with many bytes, who may stop in between, should give to one call.
  virtual Bytes piece() const { return mib(1); }
  // Whether copies from and to memory that pin() took are faster than others.
  virtual bool wants_pinned() const { return false; }
  // The memory must outlive the block, and the block the access; as Device::pin.
  virtual Result<std::unique_ptr<MemoryBlock>> pin(std::byte* memory, Bytes bytes);
  // As write, but from pinned memory it may return before the bytes are there: they are for what
  // waits for the event, which is null when they are there already. `from` must stay as it is until
  // then. Copies that were started come in their order, in no order with others.
  virtual Result<std::shared_ptr<Event>> start_write(void* to_pool, const void* from, Bytes bytes);
};

inline bool PoolAccess::give_back(std::byte*, Bytes) { return false; }

inline Result<std::unique_ptr<MemoryBlock>> PoolAccess::pin(std::byte*, Bytes) {
  return Error{ErrorCode::unsupported, "memory from which this pool is written needs no pinning"};
}

inline Result<std::shared_ptr<Event>> PoolAccess::start_write(void* to_pool, const void* from,
                                                              Bytes bytes) {
  if (Status written = write(to_pool, from, bytes); !written) return written.error();
  return std::shared_ptr<Event>();
}

}  // namespace laneway::memory
