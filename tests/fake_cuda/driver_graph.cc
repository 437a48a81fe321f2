// The driver API: stream capture, and graphs that come from it.
#include <cuda.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/gpu.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Capture;
using laneway::fake_cuda::Executable;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::Graph;
using laneway::fake_cuda::Node;
using laneway::fake_cuda::Step;
using laneway::fake_cuda::Stream;
using laneway::fake_cuda::thread_capture_mode;

namespace {

// The steps in one of the orders that the edges allow, another one each time.
std::vector<std::shared_ptr<const Step>> some_order(const Graph& graph, std::mt19937_64& chance) {
  std::vector<std::shared_ptr<const Step>> steps;
  std::set<const Node*> done;
  std::vector<const Node*> open;
  for (const auto& node : graph.nodes) open.push_back(node.get());
  while (!open.empty()) {
    // Recorded order is a good guess: the first ones are ready. One of the first eight is taken.
    std::vector<size_t> ready;
    for (size_t i = 0; i < open.size() && ready.size() < 8; ++i) {
      const auto& after = open[i]->after;
      const bool is_ready = std::all_of(after.begin(), after.end(),
                                        [&](const Node* node) { return done.contains(node); });
      if (is_ready) ready.push_back(i);
      if (i > 64 && !ready.empty()) break;
    }
    const size_t chosen = ready[chance() % ready.size()];
    const Node* node = open[chosen];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(chosen));
    done.insert(node);
    steps.push_back(node->step);
  }
  return steps;
}

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->spoiled() ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamBeginCapture");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!gpu.settings.replay) return CUDA_ERROR_NOT_SUPPORTED;
    if (handle == nullptr || handle == CU_STREAM_LEGACY) {
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    // The graph is known from the beginning, so that what is alive tells of captures too.
    const CUgraph graph = gpu.graphs.add(std::make_shared<Graph>());
    stream->capture = std::make_shared<Capture>(gpu.next_capture_id++, mode, stream, graph);
    stream->capture_tail.clear();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return call("cuStreamEndCapture", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamEndCapture");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *graph = nullptr;
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    const CUresult result = capture->end(*stream);
    if (capture->active()) return result;  // not to be ended here
    const std::shared_ptr<Graph> known = gpu.graphs.find(capture->graph());
    if (result != CUDA_SUCCESS || known == nullptr) {
      gpu.graphs.take(capture->graph());
      return result;
    }
    known->nodes = capture->recorded()->nodes;
    *graph = capture->graph();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return call("cuStreamIsCapturing", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamIsCapturing");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *status = status_of(*stream);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                CUgraph* graph, const CUgraphNode** dependencies,
                                const CUgraphEdgeData** edges, size_t* count) {
  return call("cuStreamGetCaptureInfo", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamGetCaptureInfo");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (dependencies != nullptr || edges != nullptr || count != nullptr) {
      return gpu.refuse(CUDA_ERROR_NOT_SUPPORTED,
                        "cuStreamGetCaptureInfo: the fake does not show nodes");
    }
    *status = status_of(*stream);
    const Capture* const capture = stream->capture.get();
    if (id != nullptr) *id = capture != nullptr ? capture->id() : 0;
    if (graph != nullptr) *graph = capture != nullptr ? capture->graph() : nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call("cuThreadExchangeStreamCaptureMode", Gpu::Needs::initialized, [&](Gpu&) {
    std::swap(*mode, thread_capture_mode());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return call("cuGraphGetNodes", [&](Gpu& gpu) {
    const auto graph = gpu.graphs.find(handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes != nullptr && i < *count; ++i) {
      nodes[i] =
          i < graph->nodes.size() ? reinterpret_cast<CUgraphNode>(graph->nodes[i].get()) : nullptr;
    }
    *count = nodes == nullptr ? graph->nodes.size() : std::min(*count, graph->nodes.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return call("cuGraphNodeGetType", [&](Gpu&) {
    const Step& step = *reinterpret_cast<const Node*>(handle)->step;
    *type = CU_GRAPH_NODE_TYPE_KERNEL;  // and what else there is
    if (step.copied_to != nullptr) *type = CU_GRAPH_NODE_TYPE_MEMCPY;
    if (step.host) *type = CU_GRAPH_NODE_TYPE_HOST;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* params) {
  return call("cuGraphMemcpyNodeGetParams", [&](Gpu&) {
    const Step& step = *reinterpret_cast<const Node*>(handle)->step;
    if (step.copied_to == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *params = {};
    params->srcMemoryType = params->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    params->srcDevice = reinterpret_cast<CUdeviceptr>(step.copied_from);
    params->dstDevice = reinterpret_cast<CUdeviceptr>(step.copied_to);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  return call("cuGraphInstantiateWithFlags", [&](Gpu& gpu) {
    constexpr unsigned kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    const auto graph = gpu.graphs.find(handle);
    if (graph == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto executable = std::make_shared<Executable>();
    executable->graph = std::make_shared<const Graph>(*graph);
    *out = gpu.executables.add(std::move(executable));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  return call("cuGraphUpload", [&](Gpu& gpu) {
    const auto stream = gpu.stream(stream_handle, "cuGraphUpload");
    return stream == nullptr || gpu.executables.find(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                                                        : CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return call("cuGraphLaunch", [&](Gpu& gpu) {
    const auto stream = gpu.stream(stream_handle, "cuGraphLaunch");
    const auto executable = gpu.executables.find(handle);
    if (stream == nullptr || executable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != nullptr) {
      return gpu.refuse(CUDA_ERROR_NOT_SUPPORTED,
                        "cuGraphLaunch: the fake has no graphs in graphs");
    }
    static std::mt19937_64 chance(gpu.settings.seed);
    std::vector<std::shared_ptr<laneway::fake_cuda::Mark>> after;
    if (executable->last != nullptr) after.push_back(executable->last);
    executable->last =
        gpu.enqueue(stream, some_order(*executable->graph, chance), std::move(after));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return call("cuGraphExecDestroy", [&](Gpu& gpu) {
    return gpu.executables.take(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  return call("cuGraphDestroy", [&](Gpu& gpu) {
    return gpu.graphs.take(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

}  // extern "C"
