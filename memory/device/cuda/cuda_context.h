// CudaContext: the primary context of one device. All code of the process that uses CUDA shares it,
// LibTorch included: memory, streams and errors. This object retains the context as long as it
// lives, and remembers the first error that lasts. Thread-safe; must outlive all objects of the
// context.
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
  // Errors: unsupported where there is no such device (the message has their number), else the
  // driver's error.
  static Result<std::unique_ptr<CudaContext>> open(const CudaDriver& driver, int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const CudaDriver& driver() const { return driver_; }
  CUdevice device() const { return device_; }
  CUcontext handle() const { return context_; }
  const std::string& name() const { return name_; }  // "cuda:0"

  // Returns success, or the Error, and remembers an error that lasts. `attempted` as in cuda_error.
  Status check(CUresult result, const char* attempted) const {
    return result == CUDA_SUCCESS ? Status() : failure(result, attempted);
  }
  Error failure(CUresult result, const std::string& attempted) const;
  // The first error of any call that lasts; ok before there is one.
  Status health() const;

  // As long as a Scope lives, the context is the calling thread's current one, as most calls need
  // it; its destructor restores the former one. A thread whose current context it already is pays
  // one query. When the context cannot be made current, the next driver call returns the error.
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

  // A Scope for calls (allocations, queries) that a capture of a CUDA graph forbids to other
  // threads: another thread of the process may be capturing, and these calls do not concern its
  // capture.
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
