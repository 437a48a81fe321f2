#include "adaptor/device/run_ahead.h"

#include <algorithm>
#include <utility>

#include "adaptor/device/limits.h"

namespace laneway::adaptor {

Status RunAhead::node_enqueued() {
  if (++unmarked_nodes_ < nodes_per_mark_) return {};
  // Before the mark, so that a device that has done everything is seen idle.
  collect();
  if (Status left = leave_mark(); !left) return left;
  while (too_far()) {
    ++waits_;
    if (Status done = marks_.front().event->synchronize(); !done) return done;
    collect();
  }
  return {};
}

Status RunAhead::leave_mark() {
  if (spare_.empty()) {
    Result<std::unique_ptr<memory::Event>> made = device_.create_event();
    if (!made) return made.error();
    spare_.push_back(std::move(made).value());
  }
  if (Status recorded = stream_.record(*spare_.back()); !recorded) return recorded;
  const TimePoint now = clock_.now();
  marks_.push_back({std::move(spare_.back()), unmarked_nodes_, last_mark_, now});
  spare_.pop_back();
  last_mark_ = now;
  marked_nodes_ += unmarked_nodes_;
  unmarked_nodes_ = 0;
  return {};
}

bool RunAhead::too_far() const {
  if (marks_.size() < 2) return false;
  if (marks_.size() >= limits::kMaxRunAheadMarks) return true;
  const auto behind = static_cast<double>(marked_nodes_ - marks_.front().nodes);
  return behind * node_ns_ > static_cast<double>(limits::kRunAhead.ns());
}

// Takes out the marks that are done, and learns from when they are seen to be.
void RunAhead::collect() {
  if (marks_.empty()) return;
  const TimePoint now = clock_.now();
  const TimePoint begun = busy_ ? busy_since_ : marks_.front().after;
  uint64_t done = 0;
  while (!marks_.empty() && marks_.front().event->query() == memory::EventState::done) {
    done += marks_.front().nodes;
    pop_front();
  }
  if (done == 0) {
    at_work(now);
  } else {
    learn(done, now - begun, busy_ && !marks_.empty());
    busy_ = !marks_.empty();
    busy_since_ = now;
  }
  double wanted = 2.0 * nodes_per_mark_;
  if (!marks_.empty() && node_ns_ > 0) {
    wanted = static_cast<double>(limits::kRunAheadMark.ns()) / node_ns_;
  }
  const double most = limits::kMaxNodesPerMark;
  nodes_per_mark_ = static_cast<uint32_t>(std::clamp(wanted, 1.0, most));
}

void RunAhead::learn(uint64_t nodes, Duration took, bool exact) {
  const double sample = static_cast<double>(took.ns()) / static_cast<double>(nodes);
  if (node_ns_ == 0) {
    if (exact) node_ns_ = sample;
  } else if (exact || sample < node_ns_) {
    node_ns_ = (node_ns_ + sample) / 2;
  }
}

// The oldest mark is not done: its nodes need at least the time that passed.
void RunAhead::at_work(TimePoint now) {
  const Mark& oldest = marks_.front();
  const Duration so_far = now - (busy_ ? busy_since_ : oldest.left);
  const double least = static_cast<double>(so_far.ns()) / static_cast<double>(oldest.nodes);
  node_ns_ = std::max(node_ns_, least);
}

void RunAhead::pop_front() {
  marked_nodes_ -= marks_.front().nodes;
  spare_.push_back(std::move(marks_.front().event));
  marks_.pop_front();
}

void RunAhead::drained() {
  while (!marks_.empty()) pop_front();
  unmarked_nodes_ = 0;
  busy_ = false;
}

}  // namespace laneway::adaptor
