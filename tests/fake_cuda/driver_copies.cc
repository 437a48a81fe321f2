// The driver API: copies and fills, in a stream and waited for.
#include <cuda.h>

#include "tests/fake_cuda/copies.h"
#include "tests/fake_cuda/gpu.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Copy;
using laneway::fake_cuda::Fill;
using laneway::fake_cuda::Gpu;

namespace {

CUresult copy(CUstream handle, const Copy& what) {
  return call(what.call.c_str(), [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, what.call.c_str());
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return submit_copy(gpu, stream, what);
  });
}

// The functions without a stream: in the legacy stream, waited for.
CUresult copy_now(const Copy& what) {
  return call(what.call.c_str(), [&](Gpu& gpu) {
    const CUresult refused = gpu.may_wait(what.call.c_str());
    if (refused != CUDA_SUCCESS) return refused;
    const auto stream = gpu.stream(nullptr, what.call.c_str());
    const CUresult result = submit_copy(gpu, stream, what);
    return result == CUDA_SUCCESS ? gpu.synchronize(stream) : result;
  });
}

CUresult fill(CUstream handle, const Fill& what) {
  return call(what.call.c_str(), [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, what.call.c_str());
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return submit_fill(gpu, stream, what);
  });
}

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// The typed functions take device addresses at their device ends only.
bool is_device(CUdeviceptr address) {
  Gpu& gpu = Gpu::get();
  laneway::MutexLock lock(gpu.mutex);
  return gpu.memory.owns(address);
}

}  // namespace

extern "C" {

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (!is_device(to)) return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, {"cuMemcpyHtoDAsync", at(to), from, bytes});
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!is_device(from)) return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, {"cuMemcpyDtoHAsync", to, at(from), bytes});
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!is_device(to) || !is_device(from)) return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, {"cuMemcpyDtoDAsync", at(to), at(from), bytes});
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy(stream, {"cuMemcpyAsync", at(to), at(from), bytes});
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  if (!is_device(to)) return CUDA_ERROR_INVALID_VALUE;
  return copy_now({"cuMemcpyHtoD", at(to), from, bytes});
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  if (!is_device(from)) return CUDA_ERROR_INVALID_VALUE;
  return copy_now({"cuMemcpyDtoH", to, at(from), bytes});
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (!is_device(to) || !is_device(from)) return CUDA_ERROR_INVALID_VALUE;
  return copy_now({"cuMemcpyDtoD", at(to), at(from), bytes});
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_now({"cuMemcpy", at(to), at(from), bytes});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill(stream, {"cuMemsetD8Async", to, value, 1, count});
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill(stream, {"cuMemsetD16Async", to, value, 2, count});
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill(stream, {"cuMemsetD32Async", to, value, 4, count});
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(nullptr, {"cuMemsetD8", to, value, 1, count});
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(nullptr, {"cuMemsetD16", to, value, 2, count});
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return fill(nullptr, {"cuMemsetD32", to, value, 4, count});
}

}  // extern "C"
