#include "adaptor/cuda/sm_partitions.h"

#include <string>
#include <utility>

namespace laneway::adaptor {

SmPartitions::Lease::Lease(Lease&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), index_(other.index_) {}

SmPartitions::Lease::~Lease() {
  if (owner_ == nullptr) return;
  const MutexLock lock(owner_->mutex_);
  owner_->leased_[index_] = false;
}

const memory::SmPartition* SmPartitions::Lease::partition() const {
  return owner_ == nullptr ? nullptr : owner_->partitions_[index_].get();
}

Result<std::unique_ptr<SmPartitions>> SmPartitions::make(memory::CudaDevice& device, uint32_t sms) {
  Result<std::vector<std::unique_ptr<memory::SmPartition>>> split = device.partition(sms);
  if (!split) return split.error();
  return std::unique_ptr<SmPartitions>(new SmPartitions(std::move(split).value()));
}

Result<SmPartitions::Lease> SmPartitions::lease() {
  const MutexLock lock(mutex_);
  for (size_t index = 0; index < leased_.size(); ++index) {
    if (leased_[index]) continue;
    leased_[index] = true;
    return Lease(*this, index);
  }
  const uint32_t sms = partitions_.empty() ? 0 : partitions_.front()->sms();
  return Error{ErrorCode::unsupported,
               "the device has " + std::to_string(partitions_.size()) + " partitions of " +
                   std::to_string(sms) +
                   " multiprocessors, and all have a lane: use fewer lanes, or fewer "
                   "multiprocessors for each (--lane-sms)"};
}

}  // namespace laneway::adaptor
