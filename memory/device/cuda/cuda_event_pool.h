// CudaEventPool: the driver's events, kept for the next who needs one: making one costs some
// microseconds, and a lane uses thousands a second. They have no timing, which makes recording them
// cheap. Thread-safe; outlives the events that it gave.
#pragma once

#include <cuda.h>

#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "memory/device/cuda/cuda_context.h"

namespace laneway::memory {

class CudaEventPool {
 public:
  explicit CudaEventPool(const CudaContext& context) : context_(context) {}
  ~CudaEventPool();
  CudaEventPool(const CudaEventPool&) = delete;
  CudaEventPool& operator=(const CudaEventPool&) = delete;

  const CudaContext& context() const { return context_; }

  // One that may have been recorded before: its state means nothing until it is recorded again.
  Result<CUevent> take();
  void give_back(CUevent event);

 private:
  const CudaContext& context_;
  Mutex mutex_;
  std::vector<CUevent> free_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::memory
