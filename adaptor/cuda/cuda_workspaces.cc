#include "adaptor/cuda/cuda_workspaces.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cudnn/Handle.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>

#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace laneway::adaptor {
namespace {

// The thread's handle: torch keeps it until the thread ends.
thread_local cublasHandle_t handle_of_thread = nullptr;

bool has(at::cuda::WorkspaceMapWithMutex& workspaces, cudaStream_t stream) {
  const std::shared_lock<std::shared_mutex> lock(workspaces.mutex);
  return workspaces.map.contains(
      std::make_tuple(static_cast<void*>(handle_of_thread), static_cast<void*>(stream)));
}

// Taken out under the lock and freed without it.
void forget(at::cuda::WorkspaceMapWithMutex& workspaces, cudaStream_t stream) {
  std::vector<at::DataPtr> gone;
  const std::unique_lock<std::shared_mutex> lock(workspaces.mutex);
  for (auto entry = workspaces.map.begin(); entry != workspaces.map.end();) {
    if (std::get<1>(entry->first) != static_cast<void*>(stream)) {
      ++entry;
      continue;
    }
    gone.push_back(std::move(entry->second));
    entry = workspaces.map.erase(entry);
  }
}

// cuBLASLt may share the workspace of cuBLAS; then it never has one of its own. Asked for the first
// time when everything has been made.
bool shares_workspace(cudaStream_t stream) {
  static const bool shares = !has(at::cuda::cublaslt_handle_stream_to_workspace(), stream);
  return shares;
}

}  // namespace

// Looked up in torch's tables every time, because torch._C._cuda_clearCublasWorkspaces empties
// them.
void prepare_workspaces(c10::DeviceIndex device, cudaStream_t stream) {
  if (handle_of_thread != nullptr && has(at::cuda::cublas_handle_stream_to_workspace(), stream) &&
      (shares_workspace(stream) || has(at::cuda::cublaslt_handle_stream_to_workspace(), stream))) {
    return;
  }
  // cuBLAS wants a context, which torch leaves to whoever uses a thread first.
  C10_CUDA_CHECK(c10::cuda::SetDevice(device, /*force=*/true));
  handle_of_thread = at::cuda::getCurrentCUDABlasHandle();
  at::cuda::getCUDABlasLtWorkspace();
  shares_workspace(stream);
}

void forget_workspaces(cudaStream_t stream) {
  forget(at::cuda::cublas_handle_stream_to_workspace(), stream);
  forget(at::cuda::cublaslt_handle_stream_to_workspace(), stream);
}

void prepare_recording() {
  // Kernels that draw ask for the process's generator first, whichever they are given, and it
  // cannot be made while work is written down.
  at::cuda::detail::getDefaultCUDAGenerator();
  void* const loaded = ::dlopen("libcudnn_graph.so.9", RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == nullptr) return;
  ::dlclose(loaded);
  at::native::getCudnnHandle();
}

}  // namespace laneway::adaptor
