// HostPoolAccess: access to a pool that the CPU can address, by plain copies on the caller's thread
// over a link that it may share with a device's streams. Thread-safe, except confine_to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "memory/device/copy_engine.h"
#include "memory/pool_access.h"

namespace laneway::memory {

class HostPoolAccess final : public PoolAccess {
 public:
  HostPoolAccess() : HostPoolAccess(std::make_shared<CopyEngine>()) {}
  explicit HostPoolAccess(std::shared_ptr<CopyEngine> link) : link_(std::move(link)) {}

  // From now on only addresses in [base, base + size) belong to the pool; before this call, every
  // address does. Requires: no other thread uses the object yet.
  void confine_to(const void* base, Bytes size);
  // Of the link; see CopyEngine.
  void set_bandwidth(int64_t bytes_per_s) { link_->set_bandwidth(bytes_per_s); }

  Status write(void* to_pool, const void* from, Bytes bytes) override;
  Status read(void* to, const void* from_pool, Bytes bytes) override;
  Status copy_within(void* to_pool, const void* from_pool, Bytes bytes) override;
  Status fill(void* to_pool, std::byte value, Bytes bytes) override;
  // Whole pages of a pool in shared memory.
  bool give_back(std::byte* in_pool, Bytes bytes) override;

 private:
  Status require_pool(const char* call, const void* address, Bytes bytes) const;

  std::shared_ptr<CopyEngine> link_;
  const void* base_ = nullptr;
  Bytes size_;
};

}  // namespace laneway::memory
