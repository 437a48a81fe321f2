// SmPartitions: the multiprocessors of a device, divided among lanes: each lane leases a partition
// of its own and gives it back when it is destroyed. Thread-safe; must outlive its leases.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "memory/device/cuda/cuda_device.h"

namespace laneway::adaptor {

class SmPartitions {
 public:
  // The partition of one lane; an empty lease stands for the whole device.
  class Lease {
   public:
    Lease() = default;
    Lease(SmPartitions& owner, size_t index) : owner_(&owner), index_(index) {}
    ~Lease();
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;

    const memory::SmPartition* partition() const;

   private:
    SmPartitions* owner_ = nullptr;
    size_t index_ = 0;
  };

  // Divides the device into partitions of `sms` multiprocessors. Errors: see
  // memory::SmPartition::split.
  static Result<std::unique_ptr<SmPartitions>> make(memory::CudaDevice& device, uint32_t sms);

  // unsupported when all are leased.
  Result<Lease> lease() LW_EXCLUDES(mutex_);

 private:
  explicit SmPartitions(std::vector<std::unique_ptr<memory::SmPartition>> partitions)
      : partitions_(std::move(partitions)), leased_(partitions_.size(), false) {}

  const std::vector<std::unique_ptr<memory::SmPartition>> partitions_;
  Mutex mutex_;
  std::vector<bool> leased_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::adaptor
