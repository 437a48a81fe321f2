#include "adaptor/cuda/cuda_workspaces.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cudnn/Handle.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>

#include "adaptor/cuda/cuda_lane_allocator.h"

namespace laneway::adaptor {
namespace {

// The thread's handle: torch keeps it until the thread ends.
thread_local cublasHandle_t handle_of_thread = nullptr;

// What torch keeps of a workspace: the memory, from 2.13 on with its size.
const void* memory_of(const at::DataPtr& workspace) { return workspace.get(); }
template <class Sized>
const void* memory_of(const Sized& workspace) {
  return workspace.first.get();
}

// Torch uses `own` for this thread's handle and the stream.
bool is_lent(at::cuda::WorkspaceMapWithMutex& workspaces, cudaStream_t stream,
             const KeptMemory::Block& own) {
  const std::shared_lock<std::shared_mutex> lock(workspaces.mutex);
  const auto entry = workspaces.map.find({handle_of_thread, stream});
  return entry != workspaces.map.end() && memory_of(entry->second) == own.data();
}

void take_back(at::cuda::WorkspaceMapWithMutex& workspaces, cudaStream_t stream) {
  const std::unique_lock<std::shared_mutex> lock(workspaces.mutex);
  std::erase_if(workspaces.map, [stream](const auto& entry) {
    return std::get<1>(entry.first) == static_cast<void*>(stream);
  });
}

}  // namespace

bool torch_keeps_workspaces() {
#if TORCH_VERSION_MINOR >= 15
  return at::cuda::isCUDABlasWorkspaceCachingEnabled();
#else
  return true;
#endif
}

// Looked up in torch's tables every time, because torch._C._cuda_clearCublasWorkspaces empties
// them.
void CudaWorkspaces::prepare() {
  if (handle_of_thread != nullptr && !torch_keeps_workspaces()) return;
  at::cuda::WorkspaceMapWithMutex& blas = at::cuda::cublas_handle_stream_to_workspace();
  at::cuda::WorkspaceMapWithMutex& blas_lt = at::cuda::cublaslt_handle_stream_to_workspace();
  if (handle_of_thread != nullptr && is_lent(blas, stream_, blas_) &&
      (blas_lt_.data() == nullptr || is_lent(blas_lt, stream_, blas_lt_))) {
    return;
  }
  // cuBLAS wants a context, which torch leaves to whoever uses a thread first.
  C10_CUDA_CHECK(c10::cuda::SetDevice(device_, /*force=*/true));
  {
    const LentMemory lent(device_, [this](size_t bytes) { return lend(blas_, bytes); });
    handle_of_thread = at::cuda::getCurrentCUDABlasHandle();
  }
  if (!torch_keeps_workspaces()) return;
  const LentMemory lent(device_, [this](size_t bytes) { return lend(blas_lt_, bytes); });
  at::cuda::getCUDABlasLtWorkspace();
}

// Recordings hold the address: the size, which is the process's, decides once.
void* CudaWorkspaces::lend(KeptMemory::Block& own, size_t bytes) {
  if (own.data() == nullptr) own = kept_.take(bytes);
  TORCH_CHECK(bytes <= own.bytes(), "torch asks for a workspace of ", bytes, " bytes after one of ",
              own.bytes());
  return own.data();
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
