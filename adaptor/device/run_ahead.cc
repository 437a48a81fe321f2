#include "adaptor/device/run_ahead.h"

#include <algorithm>
#include <utility>

#include "adaptor/device/limits.h"

namespace laneway::adaptor {

Status RunAhead::node_enqueued() {
  if (++unmarked_.nodes < nodes_per_mark_) return {};
  return mark();
}

Status RunAhead::recording_launched() {
  ++unmarked_.recordings;
  return mark();
}

Status RunAhead::mark() {
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
  marked_.nodes += unmarked_.nodes;
  marked_.recordings += unmarked_.recordings;
  marks_.push_back({std::move(spare_.back()), std::exchange(unmarked_, {}), last_mark_, now});
  spare_.pop_back();
  last_mark_ = now;
  return {};
}

bool RunAhead::too_far() const {
  if (marks_.size() < 2) return false;
  if (marks_.size() >= limits::kMaxRunAheadMarks) return true;
  const Work& oldest = marks_.front().work;
  // Of a recording whose time is not known yet, one keeps the device busy meanwhile.
  if (marked_.recordings > oldest.recordings && recording_ns_ == 0) return true;
  const double behind_ns =
      static_cast<double>(marked_.nodes - oldest.nodes) * node_ns_ +
      static_cast<double>(marked_.recordings - oldest.recordings) * recording_ns_;
  return behind_ns > static_cast<double>(limits::kRunAhead.ns());
}

// Takes out the marks that are done, and learns from when they are seen to be.
void RunAhead::collect() {
  if (marks_.empty()) return;
  const TimePoint now = clock_.now();
  const TimePoint begun = busy_ ? busy_since_ : marks_.front().after;
  const size_t pending = marks_.size();
  Work done;
  while (!marks_.empty() && marks_.front().event->query() == memory::EventState::done) {
    done.nodes += marks_.front().work.nodes;
    done.recordings += marks_.front().work.recordings;
    done.waits = done.waits || marks_.front().work.waits;
    pop_front();
  }
  if (marks_.size() == pending) {
    at_work(now);
  } else {
    if (!done.waits) learn(done, now - begun, busy_ && !marks_.empty());
    busy_ = !marks_.empty();
    busy_since_ = now;
  }
  double wanted = nodes_per_mark_;
  if (!marks_.empty() && node_ns_ > 0) {
    wanted = static_cast<double>(limits::kRunAheadMark.ns()) / node_ns_;
  } else if (done.recordings == 0) {
    wanted *= 2;
  }
  const double most = limits::kMaxNodesPerMark;
  nodes_per_mark_ = static_cast<uint32_t>(std::clamp(wanted, 1.0, most));
}

// Where nodes were enqueued before a recording, their estimated time is not the recording's.
void RunAhead::learn(const Work& done, Duration took, bool exact) {
  const bool recorded = done.recordings > 0;
  if (recorded && done.nodes > 0 && node_ns_ == 0) return;
  const double of_nodes = recorded ? static_cast<double>(done.nodes) * node_ns_ : 0;
  const auto count = static_cast<double>(recorded ? done.recordings : done.nodes);
  const double sample = std::max(static_cast<double>(took.ns()) - of_nodes, 0.0) / count;
  double& known_ns = recorded ? recording_ns_ : node_ns_;
  if (known_ns == 0) {
    if (exact) known_ns = sample;
  } else if (exact || sample < known_ns) {
    known_ns = (known_ns + sample) / 2;
  }
}

// The oldest mark is not done: its work needs at least the time that passed.
void RunAhead::at_work(TimePoint now) {
  const Mark& oldest = marks_.front();
  if (oldest.work.waits) return;
  const Duration so_far = now - (busy_ ? busy_since_ : oldest.left);
  const auto least_ns = static_cast<double>(so_far.ns());
  const auto nodes = static_cast<double>(oldest.work.nodes);
  if (oldest.work.recordings > 0) {
    if (recording_ns_ == 0) return;
    recording_ns_ = std::max(recording_ns_, least_ns - nodes * node_ns_);
  } else {
    node_ns_ = std::max(node_ns_, least_ns / nodes);
  }
}

void RunAhead::pop_front() {
  marked_.nodes -= marks_.front().work.nodes;
  marked_.recordings -= marks_.front().work.recordings;
  spare_.push_back(std::move(marks_.front().event));
  marks_.pop_front();
}

void RunAhead::drained() {
  while (!marks_.empty()) pop_front();
  unmarked_ = {};
  busy_ = false;
}

}  // namespace laneway::adaptor
