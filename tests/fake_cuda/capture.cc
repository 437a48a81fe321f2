#include "tests/fake_cuda/capture.h"

#include <algorithm>
#include <set>
#include <utility>

namespace laneway::fake_cuda {

CUstreamCaptureMode& thread_capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

Capture::Capture(uint64_t id, CUstreamCaptureMode mode, std::shared_ptr<Stream> origin,
                 CUgraph graph)
    : id_(id), mode_(mode), graph_(graph) {
  streams_.push_back(std::move(origin));
}

CUresult Capture::add(Stream& stream, std::shared_ptr<const Step> step) {
  if (spoiled_) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto node = std::make_shared<Node>();
  node->step = std::move(step);
  for (const auto& before : stream.capture_tail) node->after.push_back(before.get());
  recorded_->nodes.push_back(node);
  stream.capture_tail = {std::move(node)};
  return CUDA_SUCCESS;
}

CUresult Capture::join(const std::shared_ptr<Stream>& stream, const Nodes& after) {
  if (spoiled_) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) {
    streams_.push_back(stream);
  }
  for (const auto& node : after) {
    Nodes& tail = stream->capture_tail;
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
  return CUDA_SUCCESS;
}

CUresult Capture::end(const Stream& origin) {
  if (streams_.front().get() != &origin) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (mode_ != CU_STREAM_CAPTURE_MODE_RELAXED && std::this_thread::get_id() != thread_) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool joined = reaches_all(origin.capture_tail);
  active_ = false;
  for (const auto& stream : streams_) {
    stream->capture = nullptr;
    stream->capture_tail.clear();
  }
  streams_.clear();
  if (spoiled_) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

bool Capture::forbids_waiting() const {
  const CUstreamCaptureMode own = thread_capture_mode();
  if (own == CU_STREAM_CAPTURE_MODE_RELAXED || mode_ == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return false;
  }
  if (std::this_thread::get_id() == thread_) return true;
  return own == CU_STREAM_CAPTURE_MODE_GLOBAL && mode_ == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

bool Capture::reaches_all(const Nodes& from) const {
  std::set<const Node*> reached;
  std::vector<const Node*> open;
  for (const auto& node : from) open.push_back(node.get());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (reached.insert(node).second) {
      open.insert(open.end(), node->after.begin(), node->after.end());
    }
  }
  return reached.size() == recorded_->nodes.size();
}

}  // namespace laneway::fake_cuda
