// cuBLASLt: descriptions of products and the products themselves, which compute nothing.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/fake_cuda/blas.h"
#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/runtime.h"

using laneway::fake_cuda::blas_handles;
using laneway::fake_cuda::blas_status;
using laneway::fake_cuda::bytes_of;
using laneway::fake_cuda::enter_runtime;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::HandleTable;
using laneway::fake_cuda::launch;
using laneway::fake_cuda::Launch;
using laneway::fake_cuda::Matrix;
using laneway::fake_cuda::operand;
using laneway::fake_cuda::Wants;

namespace {

// What a product asks for beyond its operands: an algorithm with less would do as well.
constexpr size_t kWorkspace = size_t{1} << 20;

struct Description {};

struct Preference {
  size_t workspace = 0;
};

template <typename Handle, typename T, uintptr_t first>
HandleTable<Handle, T>& table() {
  static auto* const handles = new HandleTable<Handle, T>(first);
  return *handles;
}
auto& descriptions() { return table<cublasLtMatmulDesc_t, Description, 0xA00000>(); }
auto& preferences() { return table<cublasLtMatmulPreference_t, Preference, 0xB00000>(); }
auto& layouts() { return table<cublasLtMatrixLayout_t, Matrix, 0xC00000>(); }

template <typename Body>
cublasStatus_t locked(const char* name, Body body) {
  if (Gpu::lost_by_fork()) return CUBLAS_STATUS_NOT_INITIALIZED;
  Gpu& gpu = Gpu::get();
  laneway::MutexLock lock(gpu.mutex);
  const CUresult refused = gpu.enter(name, Gpu::Needs::nothing);
  return refused == CUDA_SUCCESS ? body() : blas_status(refused);
}

template <typename Table, typename Handle>
cublasStatus_t destroy(const char* name, Table& handles, Handle handle) {
  return locked(name, [&] {
    return handles.take(handle) == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
  });
}

template <typename T>
T read(const void* from, size_t bytes) {
  T value{};
  std::memcpy(&value, from, std::min(bytes, sizeof(T)));
  return value;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t,
                                        cudaDataType_t) {
  return locked("cublasLtMatmulDescCreate", [&] {
    *out = descriptions().add(std::make_shared<Description>());
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  return destroy("cublasLtMatmulDescDestroy", descriptions(), handle);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t, const void*, size_t) {
  return locked("cublasLtMatmulDescSetAttribute", [&] {
    return descriptions().find(handle) == nullptr ? CUBLAS_STATUS_INVALID_VALUE
                                                  : CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return locked("cublasLtMatmulPreferenceCreate", [&] {
    *out = preferences().add(std::make_shared<Preference>());
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy("cublasLtMatmulPreferenceDestroy", preferences(), handle);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return locked("cublasLtMatmulPreferenceSetAttribute", [&] {
    const auto preference = preferences().find(handle);
    if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
      preference->workspace = read<uint64_t>(value, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  return locked("cublasLtMatrixLayoutCreate", [&] {
    auto layout = std::make_shared<Matrix>();
    layout->element = bytes_of(type);
    layout->rows = static_cast<int64_t>(rows);
    layout->columns = static_cast<int64_t>(columns);
    layout->leading = leading;
    *out = layouts().add(std::move(layout));
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return destroy("cublasLtMatrixLayoutDestroy", layouts(), handle);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return locked("cublasLtMatrixLayoutSetAttribute", [&] {
    const auto layout = layouts().find(handle);
    if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
      layout->batch = read<int32_t>(value, bytes);
    } else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) {
      layout->stride = read<int64_t>(value, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  return locked("cublasLtMatmulAlgoGetHeuristic", [&] {
    const auto limits = preferences().find(preference);
    *found = 0;
    if (limits == nullptr || asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
    results[0] = {};
    results[0].workspaceSize = std::min(limits->workspace, kWorkspace);
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1.0F;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

// A handle of cuBLAS is one of cuBLASLt as well.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void*, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void*,
                              const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const CUresult refused = enter_runtime("cublasLtMatmul", Wants::context);
  if (refused != CUDA_SUCCESS) return blas_status(refused);
  Launch what;
  what.name = "cublasLtMatmul";
  what.stream = stream;
  what.operands.push_back({workspace, workspace_bytes});
  {
    Gpu& gpu = Gpu::get();
    laneway::MutexLock lock(gpu.mutex);
    if (blas_handles().find(reinterpret_cast<cublasHandle_t>(handle)) == nullptr ||
        descriptions().find(description) == nullptr) {
      return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    for (const auto& [pointer, layout] : {std::pair(a, a_layout), std::pair(b, b_layout),
                                          std::pair(static_cast<const void*>(d), d_layout)}) {
      const auto found = layouts().find(layout);
      if (found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
      Matrix matrix = *found;
      matrix.pointer = pointer;
      what.operands.push_back(operand(matrix));
    }
  }
  return blas_status(launch(what));
}

}  // extern "C"
