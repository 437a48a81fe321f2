// cuBLAS: handles and what every call of it does here.
#include "tests/fake_cuda/blas.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/runtime.h"

namespace laneway::fake_cuda {

HandleTable<cublasHandle_t, BlasHandle>& blas_handles() {
  static auto* const handles = new HandleTable<cublasHandle_t, BlasHandle>(0x900000);
  return *handles;
}

size_t bytes_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2: return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F:
    case CUDA_R_32I: return 4;
    case CUDA_R_64F:
    case CUDA_C_32F: return 8;
    case CUDA_C_64F: return 16;
    default: return 1;
  }
}

Operand operand(const Matrix& matrix) {
  if (matrix.rows <= 0 || matrix.columns <= 0 || matrix.batch <= 0) return {};
  const int64_t last =
      (matrix.columns - 1) * matrix.leading + matrix.rows + (matrix.batch - 1) * matrix.stride;
  return {matrix.pointer, static_cast<size_t>(last) * matrix.element};
}

cublasStatus_t blas_status(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS: return CUBLAS_STATUS_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE: return CUBLAS_STATUS_INVALID_VALUE;
    case CUDA_ERROR_NOT_SUPPORTED: return CUBLAS_STATUS_NOT_SUPPORTED;
    case CUDA_ERROR_OUT_OF_MEMORY: return CUBLAS_STATUS_ALLOC_FAILED;
    default: return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

cublasStatus_t launch_blas(cublasHandle_t handle, const char* name, std::vector<Operand> operands) {
  const CUresult refused = enter_runtime(name, Wants::context);
  if (refused != CUDA_SUCCESS) return blas_status(refused);
  Launch what;
  {
    Gpu& gpu = Gpu::get();
    MutexLock lock(gpu.mutex);
    const auto found = blas_handles().find(handle);
    if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    // A library's own workspace is memory that nobody planned.
    if (found->workspace == nullptr) gpu.journal.call("cublas without workspace");
    what.stream = found->stream;
    operands.push_back({found->workspace, found->workspace_bytes});
  }
  what.name = name;
  what.operands = std::move(operands);
  return blas_status(launch(what));
}

namespace {

template <typename Body>
cublasStatus_t with_handle(const char* name, cublasHandle_t handle, Body body) {
  if (Gpu::lost_by_fork()) return CUBLAS_STATUS_NOT_INITIALIZED;
  Gpu& gpu = Gpu::get();
  MutexLock lock(gpu.mutex);
  const CUresult refused = gpu.enter(name, Gpu::Needs::whole);
  if (refused != CUDA_SUCCESS) return blas_status(refused);
  const auto found = blas_handles().find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return body(gpu, *found);
}

}  // namespace
}  // namespace laneway::fake_cuda

using laneway::fake_cuda::address_of;
using laneway::fake_cuda::blas_handles;
using laneway::fake_cuda::BlasHandle;
using laneway::fake_cuda::enter_runtime;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::Wants;
using laneway::fake_cuda::with_handle;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const CUresult refused = enter_runtime("cublasCreate", Wants::context);
  if (refused != CUDA_SUCCESS) return CUBLAS_STATUS_NOT_INITIALIZED;
  Gpu& gpu = Gpu::get();
  laneway::MutexLock lock(gpu.mutex);
  *handle = blas_handles().add(std::make_shared<BlasHandle>());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return with_handle("cublasDestroy", handle, [&](Gpu&, BlasHandle&) {
    blas_handles().take(handle);
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return with_handle("cublasSetStream", handle, [&](Gpu& gpu, BlasHandle& blas) {
    if (gpu.stream(stream, "cublasSetStream") == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    blas.stream = stream;
    // The workspace is the library's own again, whatever was set before.
    blas.workspace = nullptr;
    blas.workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  return with_handle("cublasGetStream", handle, [&](Gpu&, BlasHandle& blas) {
    *stream = blas.stream;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  return with_handle("cublasSetWorkspace", handle, [&](Gpu& gpu, BlasHandle& blas) {
    if (bytes > 0 && gpu.memory.bytes(address_of(workspace), bytes) == nullptr) {
      gpu.journal.complain("cublasSetWorkspace: the workspace is not mapped");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    blas.workspace = workspace;
    blas.workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return with_handle("cublasSetMathMode", handle, [&](Gpu&, BlasHandle& blas) {
    blas.math = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return with_handle("cublasGetMathMode", handle, [&](Gpu&, BlasHandle& blas) {
    *mode = blas.math;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  return with_handle("cublasSetPointerMode", handle, [&](Gpu&, BlasHandle& blas) {
    blas.pointers = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return with_handle("cublasGetPointerMode", handle, [&](Gpu&, BlasHandle& blas) {
    *mode = blas.pointers;
    return CUBLAS_STATUS_SUCCESS;
  });
}

}  // extern "C"
