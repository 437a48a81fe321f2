#include "memory/device/cuda/cuda_event_pool.h"

namespace laneway::memory {

CudaEventPool::~CudaEventPool() {
  const CudaContext::RelaxedScope scope(context_);
  const MutexLock lock(mutex_);
  for (CUevent event : free_) context_.driver().cuEventDestroy(event);
}

Result<CUevent> CudaEventPool::take() {
  {
    const MutexLock lock(mutex_);
    if (!free_.empty()) {
      CUevent event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  const CudaContext::RelaxedScope scope(context_);
  CUevent event = nullptr;
  const CUresult made = context_.driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (made != CUDA_SUCCESS) return context_.failure(made, "making an event");
  return event;
}

void CudaEventPool::give_back(CUevent event) {
  const MutexLock lock(mutex_);
  free_.push_back(event);
}

}  // namespace laneway::memory
