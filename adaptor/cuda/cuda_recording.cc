#include "adaptor/cuda/cuda_recording.h"

#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "adaptor/cuda/cuda_workspaces.h"
#include "adaptor/scope/numeric_context.h"

namespace laneway::adaptor {
namespace {

Error failure(const char* attempted, cudaError_t error) {
  [[maybe_unused]] const cudaError_t forgotten = cudaGetLastError();  // torch's next check reads it
  return Error{ErrorCode::failed, std::string(attempted) + ": " + cudaGetErrorName(error) + " (" +
                                      cudaGetErrorString(error) + ")"};
}

// What CUDA does not tell is taken for the CPU's.
bool is_of_the_cpu(const void* memory) {
  cudaPointerAttributes found{};
  if (memory == nullptr) return false;
  if (cudaPointerGetAttributes(&found, memory) != cudaSuccess) return true;
  return found.type == cudaMemoryTypeHost || found.type == cudaMemoryTypeUnregistered;
}

bool needs_the_cpu(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeKernel;
  if (cudaGraphNodeGetType(node, &type) != cudaSuccess) return true;
  if (type != cudaGraphNodeTypeMemcpy) return type == cudaGraphNodeTypeHost;
  cudaMemcpy3DParms copy{};
  if (cudaGraphMemcpyNodeGetParams(node, &copy) != cudaSuccess) return true;
  if (copy.kind == cudaMemcpyDeviceToDevice) return false;
  return is_of_the_cpu(copy.srcPtr.ptr) || is_of_the_cpu(copy.dstPtr.ptr);
}

// An operator that sends numbers of its own to the device (without waiting, or it could not be
// written down) has them in memory that is somebody else's when they are read again.
Status require_device_only(cudaGraph_t graph) {
  size_t count = 0;
  cudaError_t listed = cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  if (listed == cudaSuccess) listed = cudaGraphGetNodes(graph, nodes.data(), &count);
  if (listed != cudaSuccess) return failure("looking at a recorded CUDA graph", listed);
  for (const cudaGraphNode_t node : nodes) {
    if (needs_the_cpu(node)) {
      return Error{ErrorCode::failed,
                   "recording a CUDA graph: an operator copies from or to memory of the CPU, which "
                   "holds something else when the graph is launched"};
    }
  }
  return {};
}

// Whether the text tells of a call that a capture forbids to its own thread. It is the first error
// of such a recording; where another thread made the call, the first error is that the capture has
// been invalidated.
bool tells_of_a_forbidden_call(const std::string& text) {
  constexpr cudaError_t kForbidden[] = {cudaErrorStreamCaptureUnsupported,
                                        cudaErrorStreamCaptureMerge,
                                        cudaErrorStreamCaptureUnmatched,
                                        cudaErrorStreamCaptureUnjoined,
                                        cudaErrorStreamCaptureIsolation,
                                        cudaErrorStreamCaptureImplicit,
                                        cudaErrorCapturedEvent,
                                        cudaErrorStreamCaptureWrongThread};
  return std::any_of(std::begin(kForbidden), std::end(kForbidden), [&](cudaError_t error) {
    return text.find(cudaGetErrorString(error)) != std::string::npos;
  });
}

}  // namespace

Result<std::unique_ptr<Recording>> CudaRecording::start(StreamLane& lane, cudaStream_t stream,
                                                        CudaRandomState& random) {
  std::unique_ptr<CudaRecording> made(new CudaRecording(lane, stream, random));
  try {
    prepare_recording();
    random.recorded_position();
  } catch (const c10::Error& error) {
    return Error{ErrorCode::failed,
                 std::string("preparing a recording: ") + error.what_without_backtrace()};
  }
  // This thread's own forbidden calls end the capture; of other threads', only waits for the whole
  // device do.
  const cudaError_t begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (begun != cudaSuccess) return failure("beginning to record a CUDA graph", begun);
  made->recording_ = true;
  lane.set_recording(true);
  try {
    const at::Tensor& position = random.recorded_position();
    random.implementation().begin_recording(position.select(0, 0), position.select(0, 1));
  } catch (const c10::Error& error) {
    return Error{ErrorCode::failed,
                 std::string("beginning a recording: ") + error.what_without_backtrace()};
  }
  return std::unique_ptr<Recording>(std::move(made));
}

CudaRecording::~CudaRecording() {
  if (recording_) {
    cudaGraph_t graph = nullptr;
    [[maybe_unused]] const cudaError_t stopped = stop(&graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    [[maybe_unused]] const cudaError_t forgotten = cudaGetLastError();
  }
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

cudaError_t CudaRecording::stop(cudaGraph_t* graph) {
  recording_ = false;
  lane_.set_recording(false);
  draws_ = random_.implementation().end_recording();
  return cudaStreamEndCapture(stream_, graph);
}

Status CudaRecording::end() {
  cudaGraph_t graph = nullptr;
  const cudaError_t stopped = stop(&graph);
  spoilt_ = stopped == cudaErrorStreamCaptureInvalidated;
  if (stopped != cudaSuccess || graph == nullptr) {
    return failure("recording a CUDA graph",
                   stopped == cudaSuccess ? cudaErrorStreamCaptureInvalidated : stopped);
  }
  Status repeatable = require_device_only(graph);
  // Its kernels would have the other settings in every launch.
  if (repeatable && !numeric_flags_hold()) {
    spoilt_ = true;
    repeatable = Error{ErrorCode::failed,
                       "recording a CUDA graph: another thread changed torch's settings (float32 "
                       "precision, deterministic algorithms, default dtype) meanwhile"};
  }
  [[maybe_unused]] const cudaError_t forgotten = cudaGetLastError();
  const cudaError_t made = repeatable ? cudaGraphInstantiate(&executable_, graph, 0) : cudaSuccess;
  cudaGraphDestroy(graph);
  if (!repeatable) return repeatable;
  if (made != cudaSuccess) {
    executable_ = nullptr;
    return failure("making a recorded CUDA graph executable", made);
  }
  return {};
}

bool CudaRecording::is_spoilt(const std::string& fault) const {
  if (!recording_) return spoilt_;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t asked = cudaStreamIsCapturing(stream_, &status);
  return asked == cudaSuccess && status == cudaStreamCaptureStatusInvalidated &&
         !tells_of_a_forbidden_call(fault);
}

Status CudaRecording::launch() {
  if (draws_ > 0) {
    if (Status sent = random_.send_position(stream_); !sent) return sent;
    CudaGenerator& generator = random_.implementation();
    CudaGenerator::Position now = generator.position();
    now.offset += draws_;
    generator.set_position(now);
  }
  const cudaError_t launched = cudaGraphLaunch(executable_, stream_);
  if (launched != cudaSuccess) return failure("launching a recorded CUDA graph", launched);
  return {};
}

}  // namespace laneway::adaptor
