#include "tests/fake_cuda/runtime.h"

#include <map>

#include "tests/fake_cuda/gpu.h"

namespace laneway::fake_cuda {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

// The runtime's own hold on the primary context; guarded by the Gpu's mutex.
CUcontext runtime_context = nullptr;

const std::map<int, const char*>& error_names() {
  static const auto& names = *new std::map<int, const char*>{
#define ERROR(name) {name, #name}
      ERROR(cudaSuccess),
      ERROR(cudaErrorInvalidValue),
      ERROR(cudaErrorMemoryAllocation),
      ERROR(cudaErrorInitializationError),
      ERROR(cudaErrorInvalidConfiguration),
      ERROR(cudaErrorInvalidDeviceFunction),
      ERROR(cudaErrorNoDevice),
      ERROR(cudaErrorInvalidDevice),
      ERROR(cudaErrorDeviceUninitialized),
      ERROR(cudaErrorInvalidResourceHandle),
      ERROR(cudaErrorSymbolNotFound),
      ERROR(cudaErrorNotReady),
      ERROR(cudaErrorIllegalAddress),
      ERROR(cudaErrorAssert),
      ERROR(cudaErrorHostMemoryAlreadyRegistered),
      ERROR(cudaErrorHostMemoryNotRegistered),
      ERROR(cudaErrorLaunchFailure),
      ERROR(cudaErrorNotPermitted),
      ERROR(cudaErrorNotSupported),
      ERROR(cudaErrorStreamCaptureUnsupported),
      ERROR(cudaErrorStreamCaptureInvalidated),
      ERROR(cudaErrorStreamCaptureUnjoined),
      ERROR(cudaErrorStreamCaptureIsolation),
      ERROR(cudaErrorStreamCaptureImplicit),
      ERROR(cudaErrorCapturedEvent),
      ERROR(cudaErrorUnknown),
#undef ERROR
  };
  return names;
}

CUresult make_context_current(Gpu& gpu) {
  if (gpu.contexts.find(runtime_context) == nullptr) {
    runtime_context = gpu.contexts.retain_primary();
  }
  return gpu.contexts.set_current(runtime_context);
}

}  // namespace

CUresult enter_runtime(const char* name, Wants wants) {
  if (Gpu::lost_by_fork()) return CUDA_ERROR_NOT_INITIALIZED;
  Gpu& gpu = Gpu::get();
  MutexLock lock(gpu.mutex);
  if (wants != Wants::nothing && !gpu.settings.device) {
    gpu.journal.call(name);
    return CUDA_ERROR_NO_DEVICE;
  }
  gpu.initialized = gpu.initialized || wants != Wants::nothing;
  const auto needs = wants == Wants::nothing  ? Gpu::Needs::nothing
                     : wants == Wants::device ? Gpu::Needs::initialized
                                              : Gpu::Needs::whole;
  const CUresult refused = gpu.enter(name, needs);
  if (refused != CUDA_SUCCESS || wants != Wants::context) return refused;
  return gpu.contexts.current() == nullptr ? make_context_current(gpu) : CUDA_SUCCESS;
}

cudaError_t remember(CUresult result) {
  const auto error = static_cast<cudaError_t>(result);
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t not_faked(const char* name) {
  return runtime(name, Wants::nothing, [&] {
    Gpu& gpu = Gpu::get();
    MutexLock lock(gpu.mutex);
    return gpu.refuse(CUDA_ERROR_NOT_SUPPORTED, std::string(name) + ": the fake does not have it");
  });
}

}  // namespace laneway::fake_cuda

using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::last_error;
using laneway::fake_cuda::runtime;
using laneway::fake_cuda::Wants;

extern "C" {

// A lost device is told again and again, whoever asks.
cudaError_t cudaPeekAtLastError() {
  Gpu& gpu = Gpu::get();
  laneway::MutexLock lock(gpu.mutex);
  return gpu.lasting != CUDA_SUCCESS ? static_cast<cudaError_t>(gpu.lasting) : last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const auto& names = laneway::fake_cuda::error_names();
  const auto found = names.find(error);
  return found == names.end() ? "cudaError without a name here" : found->second;
}

const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  if (error == cudaErrorInvalidConfiguration) return "invalid configuration argument";
  if (error == cudaErrorInvalidDeviceFunction) return "invalid device function";
  cuGetErrorString(static_cast<CUresult>(error), &text);
  return text != nullptr ? text : "unrecognized error code";
}

cudaError_t cudaSetDevice(int device) {
  return runtime("cudaSetDevice", Wants::device, [&]() -> CUresult {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    Gpu& gpu = Gpu::get();
    laneway::MutexLock lock(gpu.mutex);
    return laneway::fake_cuda::make_context_current(gpu);
  });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found) {
  return runtime("cudaGetDriverEntryPointByVersion", Wants::nothing, [&] {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult result =
        cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &status);
    if (found != nullptr) *found = static_cast<cudaDriverEntryPointQueryResult>(status);
    return result;
  });
}

}  // extern "C"
