// The driver API: device and host memory.
#include <cuda.h>

#include <algorithm>
#include <string>

#include "tests/fake_cuda/gpu.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::Step;

namespace {

constexpr unsigned kHostFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;

// Memory is taken away only when nothing runs that could use it.
CUresult wait_for_all(Gpu& gpu, const char* call) {
  const CUresult refused = gpu.may_wait(call);
  return refused == CUDA_SUCCESS ? gpu.synchronize_all() : refused;
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return call("cuMemGetInfo", [&](Gpu& gpu) {
    *total = gpu.memory.total();
    *free = gpu.memory.total() - std::min(gpu.memory.total(), gpu.memory.used());
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc(CUdeviceptr* address, size_t size) {
  return call("cuMemAlloc", [&](Gpu& gpu) {
    const CUresult refused = gpu.may_wait("cuMemAlloc");
    return refused == CUDA_SUCCESS ? gpu.memory.allocate(size, address) : refused;
  });
}

CUresult cuMemFree(CUdeviceptr address) {
  return call("cuMemFree", [&](Gpu& gpu) {
    if (address == 0) return CUDA_SUCCESS;
    const CUresult result = wait_for_all(gpu, "cuMemFree");
    if (result != CUDA_SUCCESS) return result;
    return gpu.memory.free(address) == CUDA_SUCCESS
               ? CUDA_SUCCESS
               : gpu.refuse(CUDA_ERROR_INVALID_VALUE, "cuMemFree: not a live allocation");
  });
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream handle) {
  return call("cuMemAllocAsync", [&](Gpu& gpu) {
    if (gpu.stream(handle, "cuMemAllocAsync") == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return gpu.memory.allocate(size, address);
  });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return call("cuMemFreeAsync", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuMemFreeAsync");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    CUdeviceptr base = 0;
    size_t size = 0;
    if (!gpu.memory.range_of(address, &base, &size) || base != address) {
      return gpu.refuse(CUDA_ERROR_INVALID_VALUE, "cuMemFreeAsync: not a live allocation");
    }
    return gpu.submit(stream, {"free", [&gpu, address] { return gpu.memory.free(address); }, {}});
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  return call("cuMemGetAddressRange", [&](Gpu& gpu) {
    CUdeviceptr begin = 0;
    size_t length = 0;
    if (!gpu.memory.range_of(address, &begin, &length)) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = begin;
    if (size != nullptr) *size = length;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostAlloc(void** address, size_t size, unsigned flags) {
  return call("cuMemHostAlloc", [&](Gpu& gpu) {
    if ((flags & ~kHostFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    const CUresult refused = gpu.may_wait("cuMemHostAlloc");
    return refused == CUDA_SUCCESS ? gpu.pinned.allocate(size, flags, address) : refused;
  });
}

CUresult cuMemAllocHost(void** address, size_t size) { return cuMemHostAlloc(address, size, 0); }

CUresult cuMemFreeHost(void* address) {
  return call("cuMemFreeHost", [&](Gpu& gpu) {
    const CUresult result = wait_for_all(gpu, "cuMemFreeHost");
    if (result != CUDA_SUCCESS) return result;
    return gpu.pinned.free(address) == CUDA_SUCCESS
               ? CUDA_SUCCESS
               : gpu.refuse(CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost: not what was allocated");
  });
}

CUresult cuMemHostRegister(void* address, size_t size, unsigned flags) {
  return call("cuMemHostRegister", [&](Gpu& gpu) {
    constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (gpu.memory.owns(reinterpret_cast<CUdeviceptr>(address))) return CUDA_ERROR_INVALID_VALUE;
    const CUresult refused = gpu.may_wait("cuMemHostRegister");
    return refused == CUDA_SUCCESS ? gpu.pinned.add(address, size, flags) : refused;
  });
}

CUresult cuMemHostUnregister(void* address) {
  return call("cuMemHostUnregister", [&](Gpu& gpu) {
    const CUresult result = wait_for_all(gpu, "cuMemHostUnregister");
    return result == CUDA_SUCCESS ? gpu.pinned.remove(address) : result;
  });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned flags) {
  return call("cuMemHostGetDevicePointer", [&](Gpu& gpu) {
    if (flags != 0 || !gpu.pinned.holds(host, 1)) return CUDA_ERROR_INVALID_VALUE;
    *device = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetFlags(unsigned* flags, void* host) {
  return call("cuMemHostGetFlags", [&](Gpu& gpu) {
    void* base = nullptr;
    size_t size = 0;
    if (!gpu.pinned.range_of(host, &base, &size, flags)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  return call("cuPointerGetAttribute", Gpu::Needs::whole, [&](Gpu& gpu) {
    void* host = nullptr;
    CUdeviceptr base = 0;
    size_t size = 0;
    unsigned flags = 0;
    const bool device = gpu.memory.range_of(address, &base, &size);
    const bool pinned = gpu.pinned.range_of(reinterpret_cast<void*>(address), &host, &size, &flags);
    if (!device && !pinned) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(out) = gpu.contexts.primary();
        return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(out) = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *static_cast<CUdeviceptr*>(out) = address;
        return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (device) return CUDA_ERROR_INVALID_VALUE;
        *static_cast<CUdeviceptr*>(out) = address;
        return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(out) = 0; return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<bool*>(out) = false; return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(out) = device ? base : reinterpret_cast<CUdeviceptr>(host);
        return CUDA_SUCCESS;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<size_t*>(out) = size; return CUDA_SUCCESS;
      default:
        return gpu.refuse(CUDA_ERROR_NOT_SUPPORTED,
                          "cuPointerGetAttribute: no value for " + std::to_string(attribute));
    }
  });
}

}  // extern "C"
