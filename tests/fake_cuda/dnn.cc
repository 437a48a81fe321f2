// cuDNN: handles. What computes is refused in words, so that nothing of the real library meets a
// handle that is none of its own.
#include <cudnn.h>

#include <memory>
#include <string>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/handle_table.h"
#include "tests/fake_cuda/runtime.h"

using laneway::MutexLock;
using laneway::fake_cuda::enter_runtime;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::HandleTable;
using laneway::fake_cuda::Wants;

namespace {

struct DnnHandle {
  CUstream stream = nullptr;
};

auto& handles() {
  static auto* const all = new HandleTable<cudnnHandle_t, DnnHandle>(0xF00000);
  return *all;
}

template <typename Body>
cudnnStatus_t with_handle(const char* name, cudnnHandle_t handle, Body body) {
  if (Gpu::lost_by_fork()) return CUDNN_STATUS_NOT_INITIALIZED;
  Gpu& gpu = Gpu::get();
  MutexLock lock(gpu.mutex);
  if (gpu.enter(name, Gpu::Needs::whole) != CUDA_SUCCESS) {
    return CUDNN_STATUS_INTERNAL_ERROR;
  }
  const auto found = handles().find(handle);
  return found == nullptr ? CUDNN_STATUS_BAD_PARAM : body(gpu, *found);
}

}  // namespace

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
