// The runtime API: memory, copies and fills.
#include <cuda_runtime_api.h>

#include "tests/fake_cuda/copies.h"
#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/runtime.h"

using laneway::fake_cuda::address_of;
using laneway::fake_cuda::Copy;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::not_faked;
using laneway::fake_cuda::runtime;

namespace {

// Whether the ends lie where the caller says.
bool kind_is_true(const Gpu& gpu, const Copy& copy, cudaMemcpyKind kind) {
  const bool to_device = gpu.memory.owns(address_of(copy.to));
  const bool from_device = gpu.memory.owns(address_of(copy.from));
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

CUresult submit(const Copy& copy, cudaMemcpyKind kind, CUstream handle, bool waits) {
  Gpu& gpu = Gpu::get();
  laneway::MutexLock lock(gpu.mutex);
  const auto stream = gpu.stream(handle, copy.call.c_str());
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!kind_is_true(gpu, copy, kind)) {
    return gpu.refuse(CUDA_ERROR_INVALID_VALUE,
                      copy.call + ": kind " + std::to_string(kind) + " is not what the ends are");
  }
  const CUresult refused = waits ? gpu.may_wait(copy.call.c_str()) : CUDA_SUCCESS;
  if (refused != CUDA_SUCCESS) return refused;
  const CUresult result = submit_copy(gpu, stream, copy);
  return waits && result == CUDA_SUCCESS ? gpu.synchronize(stream) : result;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t size) {
  return runtime("cudaMalloc", [&] {
    *pointer = nullptr;
    return size == 0 ? CUDA_SUCCESS : cuMemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), size);
  });
}
cudaError_t cudaFree(void* pointer) {
  return runtime("cudaFree", [&] { return cuMemFree(address_of(pointer)); });
}
cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
  return runtime("cudaMallocAsync", [&] {
    return cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(pointer), size, stream);
  });
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return runtime("cudaFreeAsync", [&] { return cuMemFreeAsync(address_of(pointer), stream); });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return runtime("cudaMemGetInfo", [&] { return cuMemGetInfo(free, total); });
}

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned flags) {
  return runtime("cudaHostAlloc", [&] { return cuMemHostAlloc(pointer, size, flags); });
}
cudaError_t cudaMallocHost(void** pointer, size_t size) {
  return runtime("cudaMallocHost", [&] { return cuMemHostAlloc(pointer, size, 0); });
}
cudaError_t cudaFreeHost(void* pointer) {
  return runtime("cudaFreeHost",
                 [&] { return pointer == nullptr ? CUDA_SUCCESS : cuMemFreeHost(pointer); });
}
cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned flags) {
  return runtime("cudaHostRegister", [&] { return cuMemHostRegister(pointer, size, flags); });
}
cudaError_t cudaHostUnregister(void* pointer) {
  return runtime("cudaHostUnregister", [&] { return cuMemHostUnregister(pointer); });
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return runtime("cudaHostGetDevicePointer", [&] {
    return cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(device), host, flags);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return runtime("cudaPointerGetAttributes", [&] {
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    unsigned type = 0;
    const CUresult result =
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(pointer));
    if (result == CUDA_ERROR_INVALID_VALUE) return CUDA_SUCCESS;  // the CPU's own memory
    if (result != CUDA_SUCCESS) return result;
    const bool device = type == CU_MEMORYTYPE_DEVICE;
    attributes->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->device = 0;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = device ? nullptr : const_cast<void*>(pointer);
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return runtime("cudaMemcpyAsync", [&] {
    return submit({"cudaMemcpyAsync", to, from, bytes}, kind, stream, false);
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return runtime("cudaMemcpy", [&] {
    return submit({"cudaMemcpy", to, from, bytes}, kind, nullptr, true);
  });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return runtime("cudaMemcpyPeerAsync", [&] {
    return submit({"cudaMemcpyPeerAsync", to, from, bytes}, cudaMemcpyDeviceToDevice, stream,
                  false);
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return runtime("cudaMemsetAsync", [&] {
    return cuMemsetD8Async(address_of(to), static_cast<unsigned char>(value), bytes, stream);
  });
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return runtime("cudaMemset", [&] {
    return cuMemsetD8(address_of(to), static_cast<unsigned char>(value), bytes);
  });
}

// Other allocators of torch, and memory of other processes: refused in words.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int) {
  return not_faked("cudaDeviceGetDefaultMemPool");
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return not_faked("cudaMemPoolGetAttribute");
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return not_faked("cudaMemPoolSetAttribute");
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
  return not_faked("cudaMemPoolSetAccess");
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return not_faked("cudaMemPoolTrimTo"); }
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return not_faked("cudaIpcGetMemHandle");
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return not_faked("cudaIpcOpenMemHandle");
}
cudaError_t cudaIpcCloseMemHandle(void*) { return not_faked("cudaIpcCloseMemHandle"); }
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return not_faked("cudaIpcGetEventHandle");
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return not_faked("cudaIpcOpenEventHandle");
}

}  // extern "C"
