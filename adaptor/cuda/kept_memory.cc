#include "adaptor/cuda/kept_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <algorithm>

namespace laneway::adaptor {

KeptMemory::~KeptMemory() {
  // A device that was lost has freed them.
  for (const auto& [bytes, memory] : free_) cudaFree(memory);
  [[maybe_unused]] const cudaError_t forgotten = cudaGetLastError();
}

KeptMemory::Block& KeptMemory::Block::operator=(Block&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void KeptMemory::Block::give_back() {
  if (owner_ == nullptr) return;
  const MutexLock lock(owner_->mutex_);
  owner_->free_.emplace_back(bytes_, data_);
}

KeptMemory::Block KeptMemory::take(size_t bytes) {
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(),
                                    [&](const auto& kept) { return kept.first == bytes; });
    if (found != free_.end()) {
      void* const memory = found->second;
      free_.erase(found);
      return {*this, memory, bytes};
    }
  }
  void* memory = nullptr;
  cudaError_t made = cudaMalloc(&memory, bytes);
  if (made == cudaErrorMemoryAllocation) {
    [[maybe_unused]] const cudaError_t forgotten = cudaGetLastError();
    c10::cuda::CUDACachingAllocator::emptyCache();  // what torch keeps and nobody uses
    made = cudaMalloc(&memory, bytes);
  }
  if (made == cudaErrorMemoryAllocation) {
    [[maybe_unused]] const cudaError_t forgotten = cudaGetLastError();
    TORCH_CHECK_WITH(OutOfMemoryError, false, "the device has no ", bytes,
                     " bytes beside the pool: give the service a smaller pool, or free device "
                     "memory of other processes");
  }
  C10_CUDA_CHECK(made);
  return {*this, memory, bytes};
}

}  // namespace laneway::adaptor
