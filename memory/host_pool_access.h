// HostPoolAccess: access to a pool that the CPU can address, by plain copies on the caller's
// thread. With a bandwidth set, copies take as long as on a link, one copy per direction at a time;
// without one, callers do not wait for each other. Thread-safe, except confine_to.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "memory/device/copy_engine.h"
#include "memory/pool_access.h"

namespace laneway::memory {

class HostPoolAccess final : public PoolAccess {
 public:
  HostPoolAccess() = default;
  // `clock` must outlive the object. Tests give a ManualClock and a sleep that advances it.
  HostPoolAccess(const Clock& clock, CopyEngine::Sleep sleep) : link_(clock, std::move(sleep)) {}

  // From now on only addresses in [base, base + size) belong to the pool; before this call, every
  // address does. Requires: no other thread uses the object yet.
  void confine_to(const void* base, Bytes size);
  // Bytes per second in each direction; 0: as fast as the machine copies.
  void set_bandwidth(int64_t bytes_per_s);

  Status write(void* to_pool, const void* from, Bytes bytes) override;
  Status read(void* to, const void* from_pool, Bytes bytes) override;
  Status fill(void* to_pool, std::byte value, Bytes bytes) override;

 private:
  Status require_pool(const char* call, const void* address, Bytes bytes) const;
  void copy(CopyDirection direction, void* to, const void* from, Bytes bytes);

  CopyEngine link_;
  std::atomic<bool> limited_{false};
  const void* base_ = nullptr;
  Bytes size_;
};

}  // namespace laneway::memory
