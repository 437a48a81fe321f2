// CudaContext: the primary context of one device, which everything in the process that uses CUDA
// shares (LibTorch too): its memory, streams and errors are one. Retained as long as this object
// lives. Remembers the first error that lasts. Thread-safe; outlives what is made in it.
#pragma once

#include <cuda.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "memory/device/cuda/cuda_driver.h"

namespace laneway::memory {

class CudaContext {
 public:
  // Errors: unsupported where there is no such device (how many there are), else what the driver
  // says.
  static Result<std::unique_ptr<CudaContext>> open(const CudaDriver& driver, int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const CudaDriver& driver() const { return driver_; }
  CUdevice device() const { return device_; }
  CUcontext handle() const { return context_; }
  const std::string& name() const { return name_; }  // "cuda:0"

  // Success, or the Error; one that lasts is remembered. `attempted` as in cuda_error.
  Status check(CUresult result, const char* attempted) const {
    return result == CUDA_SUCCESS ? Status() : failure(result, attempted);
  }
  Error failure(CUresult result, const std::string& attempted) const;
  // The first error that lasts, of whatever call; ok before.
  Status health() const;

  // Within its life the context is the calling thread's current one, as most calls need it; what
  // was current before is so again afterwards. A thread that works with the context anyhow pays
  // one look. When it cannot be made current, the call in it says why.
  class Scope {
   public:
    explicit Scope(const CudaContext& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const CudaDriver& driver_;
    bool pushed_ = false;
  };

  // A Scope for calls that the capture of a CUDA graph forbids to other threads (allocating,
  // asking): somebody else in the process may be capturing, and has nothing to do with them.
  class RelaxedScope {
   public:
    explicit RelaxedScope(const CudaContext& context);
    ~RelaxedScope();
    RelaxedScope(const RelaxedScope&) = delete;
    RelaxedScope& operator=(const RelaxedScope&) = delete;

   private:
    Scope scope_;
    const CudaDriver& driver_;
    CUstreamCaptureMode before_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  };

 private:
  CudaContext(const CudaDriver& driver, CUdevice device, CUcontext context, std::string name)
      : driver_(driver), device_(device), context_(context), name_(std::move(name)) {}

  const CudaDriver& driver_;
  const CUdevice device_;
  const CUcontext context_;
  const std::string name_;
  mutable Mutex mutex_;
  mutable Status lost_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::memory
