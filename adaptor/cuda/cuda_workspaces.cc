#include "adaptor/cuda/cuda_workspaces.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cudnn/Handle.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <utility>

namespace laneway::adaptor {
namespace {

// The thread's handle: torch keeps it until the thread ends.
thread_local cublasHandle_t handle_of_thread = nullptr;

// Torch uses `own` for this thread's handle and the stream.
bool is_lent(at::cuda::WorkspaceMapWithMutex& workspaces, cudaStream_t stream,
             const c10::DataPtr& own) {
  const std::shared_lock<std::shared_mutex> lock(workspaces.mutex);
  const auto entry = workspaces.map.find({handle_of_thread, stream});
  return entry != workspaces.map.end() && entry->second.get() == own.get();
}

// What torch made for this thread's handle becomes `own`, or gives way to it; torch gets the loan
// of it. Nothing where torch made none.
void lend(at::cuda::WorkspaceMapWithMutex& workspaces, cudaStream_t stream, c10::DataPtr& own) {
  c10::DataPtr unused;  // freed without the lock
  const std::unique_lock<std::shared_mutex> lock(workspaces.mutex);
  const auto entry = workspaces.map.find({handle_of_thread, stream});
  if (entry == workspaces.map.end()) return;
  (own.get() == nullptr ? own : unused) = std::move(entry->second);
  entry->second = {own.get(), own.get(), [](void*) {}, own.device()};
}

void take_back(at::cuda::WorkspaceMapWithMutex& workspaces, cudaStream_t stream) {
  const std::unique_lock<std::shared_mutex> lock(workspaces.mutex);
  std::erase_if(workspaces.map, [stream](const auto& entry) {
    return std::get<1>(entry.first) == static_cast<void*>(stream);
  });
}

}  // namespace

// Looked up in torch's tables every time, because torch._C._cuda_clearCublasWorkspaces empties
// them.
void CudaWorkspaces::prepare() {
  at::cuda::WorkspaceMapWithMutex& blas = at::cuda::cublas_handle_stream_to_workspace();
  at::cuda::WorkspaceMapWithMutex& blas_lt = at::cuda::cublaslt_handle_stream_to_workspace();
  if (handle_of_thread != nullptr && is_lent(blas, stream_, blas_) &&
      (blas_lt_.get() == nullptr || is_lent(blas_lt, stream_, blas_lt_))) {
    return;
  }
  // cuBLAS wants a context, which torch leaves to whoever uses a thread first.
  C10_CUDA_CHECK(c10::cuda::SetDevice(device_, /*force=*/true));
  handle_of_thread = at::cuda::getCurrentCUDABlasHandle();
  at::cuda::getCUDABlasLtWorkspace();
  lend(blas, stream_, blas_);
  lend(blas_lt, stream_, blas_lt_);
}

CudaWorkspaces::~CudaWorkspaces() {
  take_back(at::cuda::cublas_handle_stream_to_workspace(), stream_);
  take_back(at::cuda::cublaslt_handle_stream_to_workspace(), stream_);
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
