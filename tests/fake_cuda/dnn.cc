#include "tests/fake_cuda/dnn.h"

#include <memory>
#include <string>
#include <utility>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/handle_table.h"
#include "tests/fake_cuda/runtime.h"

namespace laneway::fake_cuda {
namespace {

struct DnnHandle {
  CUstream stream = nullptr;
};

auto& handles() {
  static auto* const all = new HandleTable<cudnnHandle_t, DnnHandle>(0xF00000);
  return *all;
}

cudnnStatus_t dnn_status(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS: return CUDNN_STATUS_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE: return CUDNN_STATUS_BAD_PARAM;
    case CUDA_ERROR_NOT_INITIALIZED: return CUDNN_STATUS_NOT_INITIALIZED;
    default: return CUDNN_STATUS_EXECUTION_FAILED;
  }
}

template <typename Body>
cudnnStatus_t with_handle(const char* name, cudnnHandle_t handle, Body body) {
  const CUresult refused = enter_runtime(name, Wants::context);
  if (refused != CUDA_SUCCESS) return dnn_status(refused);
  Gpu& gpu = Gpu::get();
  MutexLock lock(gpu.mutex);
  const auto found = handles().find(handle);
  return found == nullptr ? CUDNN_STATUS_BAD_PARAM : body(gpu, *found);
}

}  // namespace

cudnnStatus_t launch_dnn(cudnnHandle_t handle, const char* name, std::vector<Operand> operands) {
  Launch what;
  what.name = name;
  what.operands = std::move(operands);
  const cudnnStatus_t status = with_handle(name, handle, [&](Gpu&, DnnHandle& dnn) {
    what.stream = dnn.stream;
    return CUDNN_STATUS_SUCCESS;
  });
  return status == CUDNN_STATUS_SUCCESS ? dnn_status(launch(what)) : status;
}

cudnnStatus_t check_dnn(const char* name, cudnnHandle_t handle) {
  return with_handle(name, handle, [](Gpu&, DnnHandle&) { return CUDNN_STATUS_SUCCESS; });
}

cudnnStatus_t refuse_dnn(const char* name) {
  not_faked(name);
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace laneway::fake_cuda

using laneway::MutexLock;
using laneway::fake_cuda::DnnHandle;
using laneway::fake_cuda::enter_runtime;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::handles;
using laneway::fake_cuda::Wants;
using laneway::fake_cuda::with_handle;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (enter_runtime("cudnnCreate", Wants::context) != CUDA_SUCCESS) {
    return CUDNN_STATUS_NOT_INITIALIZED;
  }
  MutexLock lock(Gpu::get().mutex);
  *handle = handles().add(std::make_shared<DnnHandle>());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return with_handle("cudnnDestroy", handle, [&](Gpu&, DnnHandle&) {
    handles().take(handle);
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return with_handle("cudnnSetStream", handle, [&](Gpu& gpu, DnnHandle& dnn) {
    if (gpu.stream(stream, "cudnnSetStream") == nullptr) return CUDNN_STATUS_BAD_PARAM;
    dnn.stream = stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return with_handle("cudnnGetStream", handle, [&](Gpu&, DnnHandle& dnn) {
    *stream = dnn.stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
