#include "memory/device/cuda/cuda_context.h"

#include <utility>

#include "memory/device/cuda/cuda_error.h"

namespace laneway::memory {
namespace {

Error no_such_device(int ordinal, int count) {
  const std::string asked = "there is no cuda:" + std::to_string(ordinal) + ": ";
  if (count == 0) {
    return Error{ErrorCode::unsupported,
                 asked +
                     "this machine has no CUDA device, or CUDA_VISIBLE_DEVICES hides it; use "
                     "--device host"};
  }
  const std::string devices =
      count == 1
          ? "1 CUDA device, cuda:0"
          : std::to_string(count) + " CUDA devices, cuda:0 to cuda:" + std::to_string(count - 1);
  return Error{ErrorCode::unsupported, asked + "this process sees " + devices +
                                           "; name one of those (CUDA_VISIBLE_DEVICES says which)"};
}

}  // namespace

Result<std::unique_ptr<CudaContext>> CudaContext::open(const CudaDriver& driver, int ordinal) {
  const std::string name = "cuda:" + std::to_string(ordinal);
  int count = 0;
  if (const CUresult begun = driver.cuInit(0); begun == CUDA_ERROR_NO_DEVICE) {
    return no_such_device(ordinal, 0);
  } else if (begun != CUDA_SUCCESS) {
    return cuda_error(driver, begun, "starting CUDA", name);
  }
  if (const CUresult counted = driver.cuDeviceGetCount(&count); counted != CUDA_SUCCESS) {
    return cuda_error(driver, counted, "counting the CUDA devices", name);
  }
  if (ordinal < 0 || ordinal >= count) return no_such_device(ordinal, count);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUresult result = driver.cuDeviceGet(&device, ordinal);
  if (result == CUDA_SUCCESS) result = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (result != CUDA_SUCCESS) return cuda_error(driver, result, "making a context", name);
  return std::unique_ptr<CudaContext>(new CudaContext(driver, device, context, name));
}

CudaContext::~CudaContext() { driver_.cuDevicePrimaryCtxRelease(device_); }

Error CudaContext::failure(CUresult result, const std::string& attempted) const {
  Error error = cuda_error(driver_, result, attempted, name_);
  if (error.code == ErrorCode::device_lost) {
    const MutexLock lock(mutex_);
    if (lost_.ok()) lost_ = error;
  }
  return error;
}

Status CudaContext::health() const {
  const MutexLock lock(mutex_);
  return lost_;
}

CudaContext::Scope::Scope(const CudaContext& context) : driver_(context.driver_) {
  CUcontext current = nullptr;
  if (driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context.context_) return;
  pushed_ = driver_.cuCtxPushCurrent(context.context_) == CUDA_SUCCESS;
}

CudaContext::Scope::~Scope() {
  CUcontext popped = nullptr;
  if (pushed_) driver_.cuCtxPopCurrent(&popped);
}

CudaContext::RelaxedScope::RelaxedScope(const CudaContext& context)
    : scope_(context), driver_(context.driver_) {
  if (driver_.cuThreadExchangeStreamCaptureMode == nullptr) return;
  driver_.cuThreadExchangeStreamCaptureMode(&before_);
}

CudaContext::RelaxedScope::~RelaxedScope() {
  if (driver_.cuThreadExchangeStreamCaptureMode == nullptr) return;
  driver_.cuThreadExchangeStreamCaptureMode(&before_);
}

}  // namespace laneway::memory
