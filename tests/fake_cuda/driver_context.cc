// The driver API: the primary context and each thread's current one.
#include <cuda.h>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/hopper.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Gpu;
namespace hopper = laneway::fake_cuda::hopper;

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", Gpu::Needs::whole, [&](Gpu& gpu) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *context = gpu.contexts.retain_primary();
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease", Gpu::Needs::initialized, [&](Gpu& gpu) {
    bool last = false;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    if (!gpu.contexts.release_primary(&last)) return CUDA_ERROR_INVALID_CONTEXT;
    if (last) {
      gpu.synchronize_all();
      gpu.forget_all();
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return call("cuDevicePrimaryCtxReset", Gpu::Needs::whole, [&](Gpu& gpu) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    gpu.synchronize_all();
    gpu.contexts.destroy_primary();
    gpu.forget_all();
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", Gpu::Needs::initialized, [&](Gpu& gpu) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *flags = gpu.contexts.primary_flags;
    *active = gpu.contexts.primary() != nullptr ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return call("cuDevicePrimaryCtxSetFlags", Gpu::Needs::initialized, [&](Gpu& gpu) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    gpu.contexts.primary_flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return call("cuCtxSetCurrent", Gpu::Needs::initialized,
              [&](Gpu& gpu) { return gpu.contexts.set_current(context); });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return call("cuCtxGetCurrent", Gpu::Needs::initialized, [&](Gpu& gpu) {
    *context = gpu.contexts.current();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return call("cuCtxPushCurrent", Gpu::Needs::initialized,
              [&](Gpu& gpu) { return gpu.contexts.push(context); });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return call("cuCtxPopCurrent", Gpu::Needs::initialized,
              [&](Gpu& gpu) { return gpu.contexts.pop(context); });
}

CUresult cuCtxSynchronize() {
  return call("cuCtxSynchronize", [](Gpu& gpu) {
    const CUresult refused = gpu.may_wait_for_all("cuCtxSynchronize");
    return refused == CUDA_SUCCESS ? gpu.synchronize_all() : refused;
  });
}

// What cuGetProcAddress gives for cuCtxSynchronize from CUDA 13.0 on: it wants a context.
CUresult cuCtxSynchronize_v2(CUcontext context) {
  return call("cuCtxSynchronize", Gpu::Needs::whole, [&](Gpu& gpu) {
    if (context != nullptr && gpu.contexts.find(context) == nullptr) {
      return gpu.refuse(CUDA_ERROR_INVALID_CONTEXT, "cuCtxSynchronize_v2: not a live context");
    }
    if (context == nullptr && gpu.contexts.current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult refused = gpu.may_wait_for_all("cuCtxSynchronize");
    if (refused != CUDA_SUCCESS) return refused;
    return gpu.synchronize_all();
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return call("cuCtxGetDevice", [&](Gpu&) {
    *device = 0;
    return CUDA_SUCCESS;
  });
}

// The same of CUDA 13.0.
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return call("cuCtxGetDevice", Gpu::Needs::initialized, [&](Gpu& gpu) {
    if (context != nullptr && gpu.contexts.find(context) == nullptr) {
      return gpu.refuse(CUDA_ERROR_INVALID_CONTEXT, "cuCtxGetDevice_v2: not a live context");
    }
    *device = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned* flags) {
  return call("cuCtxGetFlags", [&](Gpu& gpu) {
    *flags = gpu.contexts.primary_flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  return call("cuCtxGetId", Gpu::Needs::initialized, [&](Gpu& gpu) {
    const auto found = gpu.contexts.find(context != nullptr ? context : gpu.contexts.current());
    if (found == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = found->id;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call("cuCtxGetStreamPriorityRange", [&](Gpu&) {
    if (least != nullptr) *least = hopper::kLeastPriority;
    if (greatest != nullptr) *greatest = hopper::kGreatestPriority;
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
