// CudaEventPool: keeps unused events of the driver for the next user: to make one costs some
// microseconds, and a lane uses thousands per second. The events have no timing, so recording them
// is cheap. Thread-safe; must outlive the events that it gave.
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

  // The event may have been recorded before: its state means nothing until it is recorded again.
  Result<CUevent> take();
  void give_back(CUevent event);

 private:
  const CudaContext& context_;
  Mutex mutex_;
  std::vector<CUevent> free_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::memory
