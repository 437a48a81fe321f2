#include "adaptor/cuda/cuda_recording.h"

#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <vector>

#include "adaptor/cuda/cuda_workspaces.h"

namespace laneway::adaptor {
namespace {

Error failure(const char* attempted, cudaError_t error) {
  [[maybe_unused]] const cudaError_t forgotten = cudaGetLastError();  // torch's next check reads it
  return Error{ErrorCode::failed, std::string(attempted) + ": " + cudaGetErrorName(error) + " (" +
                                      cudaGetErrorString(error) + ")"};
}

bool is_of_the_cpu(const void* memory) {
  cudaPointerAttributes found{};
  if (memory == nullptr || cudaPointerGetAttributes(&found, memory) != cudaSuccess) return false;
  return found.type == cudaMemoryTypeHost || found.type == cudaMemoryTypeUnregistered;
}

bool needs_the_cpu(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeKernel;
  if (cudaGraphNodeGetType(node, &type) != cudaSuccess) return false;
  if (type != cudaGraphNodeTypeMemcpy) return type == cudaGraphNodeTypeHost;
  cudaMemcpy3DParms copy{};
  if (cudaGraphMemcpyNodeGetParams(node, &copy) != cudaSuccess) return false;
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
  // This thread's own forbidden calls end the capture; other threads' are their own matter.
  const cudaError_t begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (begun != cudaSuccess) return failure("beginning to record a CUDA graph", begun);
  made->recording_ = true;
  lane.set_recording(true);
  const at::Tensor& position = random.recorded_position();
  random.implementation().begin_recording(position.select(0, 0), position.select(0, 1));
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
  if (stopped != cudaSuccess || graph == nullptr) {
    return failure("recording a CUDA graph",
                   stopped == cudaSuccess ? cudaErrorStreamCaptureInvalidated : stopped);
  }
  Status repeatable = require_device_only(graph);
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

Status CudaRecording::launch() {
  if (draws_ > 0) {
    CudaGenerator& generator = random_.implementation();
    CudaGenerator::Position now = generator.position();
    // So few bytes are read before the call returns, and written in the order of the stream.
    const std::array<uint64_t, 2> numbers = {now.seed, now.offset};
    const cudaError_t sent =
        cudaMemcpyAsync(random_.recorded_position().mutable_data_ptr(), numbers.data(),
                        sizeof(numbers), cudaMemcpyHostToDevice, stream_);
    if (sent != cudaSuccess) return failure("sending a job's random state to the device", sent);
    now.offset += draws_;
    generator.set_position(now);
  }
  const cudaError_t launched = cudaGraphLaunch(executable_, stream_);
  if (launched != cudaSuccess) return failure("launching a recorded CUDA graph", launched);
  return {};
}

}  // namespace laneway::adaptor
