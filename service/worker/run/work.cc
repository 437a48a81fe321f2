#include "service/worker/run/work.h"

#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/room_error.h"

namespace laneway::service {
namespace {

uint64_t padded(uint64_t bytes) {
  return static_cast<uint64_t>(
      Bytes(static_cast<int64_t>(bytes)).aligned_up(limits::kHostAlignment).count());
}

}  // namespace

uint64_t output_bytes(const lanes::Graph& graph, lanes::ValueIndex value) {
  const lanes::Value& declared = graph.values[value];
  if (declared.kind != lanes::ValueKind::tensor) return 8;
  int64_t bytes = lanes::dtype_bytes(declared.dtype);
  for (const int64_t size : declared.sizes) bytes *= size;
  return static_cast<uint64_t>(bytes);
}

Work::Work(GraphHandle of, std::span<const lanes::InputView> inputs)
    : graph_(std::move(of)), inputs_(inputs.begin(), inputs.end()) {
  const lanes::Graph& graph = graph_->torch->graph();
  uint64_t total = limits::kHostAlignment;
  for (const lanes::InputView& input : inputs) total += padded(input.bytes);
  for (const lanes::ValueIndex output : graph.outputs) total += padded(output_bytes(graph, output));
  bytes_.resize(total);
  const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
  std::byte* next = bytes_.data() + (padded(address) - address);
  for (lanes::InputView& input : inputs_) {
    if (input.bytes == 0) continue;
    std::memcpy(next, input.data, input.bytes);
    input.data = next;
    next += padded(input.bytes);
  }
  for (const lanes::ValueIndex output : graph.outputs) {
    const uint64_t bytes = output_bytes(graph, output);
    outputs_.push_back({.data = next, .bytes = bytes});
    next += padded(bytes);
  }
}

void Work::complete(Status status, Duration /*took*/, bool /*spoiled*/) {
  GraphHandle ended;  // a client may keep the work longer than the job
  MutexLock lock(mutex_);
  if (status_) return;
  status_ = std::move(status);
  ended.swap(graph_);
  done_.notify_all();
}

std::optional<Status> Work::wait(Duration timeout) {
  MutexLock lock(mutex_);
  if (timeout.ns() < 0 || timeout > kLongestWait) {
    while (!status_) done_.wait(mutex_);
  } else if (timeout.ns() > 0) {
    const SteadyClock clock;
    const TimePoint until = clock.now() + timeout;
    while (!status_) {
      const Duration left = until - clock.now();
      if (left.ns() <= 0 || !done_.wait_for(mutex_, left)) break;
    }
  }
  return status_;
}

uint32_t Work::threads() const {
  if (graph_ == nullptr) return 1;
  return graph_->torch->threads();
}

Status Work::copy_outputs(std::span<const lanes::OutputView> to) const {
  if (to.size() != outputs_.size()) {
    return wrong_room("the iteration", "outputs", {.needed = outputs_.size(), .given = to.size()});
  }
  for (size_t i = 0; i < to.size(); ++i) {
    const uint64_t given = to[i].data == nullptr ? 0 : to[i].bytes;
    if (given != outputs_[i].bytes) {
      return wrong_room("output " + std::to_string(i) + " of the iteration", "bytes",
                        {.needed = outputs_[i].bytes, .given = given});
    }
    if (to[i].bytes > 0) std::memcpy(to[i].data, outputs_[i].data, to[i].bytes);
  }
  return {};
}

}  // namespace laneway::service
