// The runtime API: streams, events, host functions, capture and graphs.
#include <cuda_runtime_api.h>

#include <memory>

#include "tests/fake_cuda/runtime.h"

using laneway::fake_cuda::not_faked;
using laneway::fake_cuda::runtime;
using laneway::fake_cuda::Wants;

namespace {

struct Callback {
  cudaStream_t stream;
  cudaStreamCallback_t function;
  void* argument;
};

void run_callback(void* given) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(given));
  callback->function(callback->stream, cudaSuccess, callback->argument);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return runtime("cudaStreamCreateWithPriority",
                 [&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return runtime("cudaStreamCreateWithFlags", [&] { return cuStreamCreate(stream, flags); });
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return runtime("cudaStreamCreate", [&] { return cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return runtime("cudaStreamDestroy", [&] { return cuStreamDestroy(stream); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return runtime("cudaStreamSynchronize", [&] { return cuStreamSynchronize(stream); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return runtime("cudaStreamQuery", [&] { return cuStreamQuery(stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return runtime("cudaStreamWaitEvent", [&] { return cuStreamWaitEvent(stream, event, flags); });
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return runtime("cudaStreamGetPriority", [&] { return cuStreamGetPriority(stream, priority); });
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return runtime("cudaStreamGetFlags", [&] { return cuStreamGetFlags(stream, flags); });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return runtime("cudaLaunchHostFunc",
                 [&] { return cuLaunchHostFunc(stream, function, argument); });
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                  void* argument, unsigned) {
  return runtime("cudaStreamAddCallback", [&] {
    auto callback = std::make_unique<Callback>(Callback{stream, function, argument});
    const CUresult result = cuLaunchHostFunc(stream, run_callback, callback.get());
    if (result == CUDA_SUCCESS) callback.release();
    return result;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return runtime("cudaEventCreateWithFlags", [&] { return cuEventCreate(event, flags); });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return runtime("cudaEventCreate", [&] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return runtime("cudaEventDestroy", [&] { return cuEventDestroy(event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return runtime("cudaEventRecord", [&] { return cuEventRecord(event, stream); });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return runtime("cudaEventRecordWithFlags",
                 [&] { return cuEventRecordWithFlags(event, stream, flags); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return runtime("cudaEventQuery", [&] { return cuEventQuery(event); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return runtime("cudaEventSynchronize", [&] { return cuEventSynchronize(event); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return runtime("cudaEventElapsedTime",
                 [&] { return cuEventElapsedTime(milliseconds, begin, end); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return runtime("cudaStreamBeginCapture", [&] {
    return cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode));
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return runtime("cudaStreamEndCapture", [&] { return cuStreamEndCapture(stream, graph); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return runtime("cudaStreamIsCapturing", [&] {
    CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = cuStreamIsCapturing(stream, &found);
    *status = static_cast<cudaStreamCaptureStatus>(found);
    return result;
  });
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  return runtime("cudaStreamGetCaptureInfo", [&] {
    CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t number = 0;
    const CUresult result =
        cuStreamGetCaptureInfo(stream, &found, &number, graph, dependencies,
                               reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    *status = static_cast<cudaStreamCaptureStatus>(found);
    if (id != nullptr) *id = number;
    return result;
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return runtime("cudaThreadExchangeStreamCaptureMode", Wants::device, [&] {
    auto driver_mode = static_cast<CUstreamCaptureMode>(*mode);
    const CUresult result = cuThreadExchangeStreamCaptureMode(&driver_mode);
    *mode = static_cast<cudaStreamCaptureMode>(driver_mode);
    return result;
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return runtime("cudaGraphInstantiateWithFlags",
                 [&] { return cuGraphInstantiate(executable, graph, flags); });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return runtime("cudaGraphUpload", [&] { return cuGraphUpload(executable, stream); });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return runtime("cudaGraphLaunch", [&] { return cuGraphLaunch(executable, stream); });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return runtime("cudaGraphGetNodes", [&] { return cuGraphGetNodes(graph, nodes, count); });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return runtime("cudaGraphNodeGetType", [&] {
    CUgraphNodeType found = CU_GRAPH_NODE_TYPE_KERNEL;
    const CUresult result = cuGraphNodeGetType(node, &found);
    *type = static_cast<cudaGraphNodeType>(found);
    return result;
  });
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  return runtime("cudaGraphMemcpyNodeGetParams", [&] {
    CUDA_MEMCPY3D found{};
    const CUresult result = cuGraphMemcpyNodeGetParams(node, &found);
    *params = {};
    params->srcPtr.ptr = reinterpret_cast<void*>(found.srcDevice);
    params->dstPtr.ptr = reinterpret_cast<void*>(found.dstDevice);
    params->kind = cudaMemcpyDefault;
    return result;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return runtime("cudaGraphDestroy", [&] { return cuGraphDestroy(graph); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return runtime("cudaGraphExecDestroy", [&] { return cuGraphExecDestroy(executable); });
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) {
  return not_faked("cudaGraphDebugDotPrint");
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*,
                                         size_t*) {
  return not_faked("cudaGraphNodeGetDependencies");
}

}  // extern "C"
