// LaneNoting: what a lane is at, noted in the journal for the supervisor (LaneNotes). A note is a
// relaxed store of the lane's thread; without a journal there is none. Belongs to whoever has set
// the lane's `busy`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/ids.h"
#include "base/time.h"
#include "lanes/run/forwarding_runner.h"
#include "service/journal/journal_layout.h"

namespace laneway::service {

class LaneNoting {
 public:
  // Null: nothing is noted. A predecessor's notes are gone.
  explicit LaneNoting(LaneNotes* notes) : notes_(notes) { end(); }

  void begin(LaneDoing doing, JobId job, uint32_t graph = 0, Duration bound = {}) {
    if (notes_ == nullptr) return;
    constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
    const int64_t ms = std::min((bound.ns() + 999'999) / 1'000'000, kMost);
    notes_->job.store(job.value(), kRelaxed);
    notes_->graph.store(graph, kRelaxed);
    notes_->node.store(kNoNode, kRelaxed);  // the former one was another work's
    notes_->bound_ms.store(static_cast<uint32_t>(ms), kRelaxed);
    progress();
    notes_->doing.store(static_cast<uint32_t>(doing), kRelaxed);
  }
  // The same job does something else now.
  void change(LaneDoing doing) {
    if (notes_ == nullptr) return;
    notes_->node.store(kNoNode, kRelaxed);
    progress();
    notes_->doing.store(static_cast<uint32_t>(doing), kRelaxed);
  }
  void node(size_t index) {
    if (notes_ == nullptr) return;
    notes_->node.store(static_cast<uint32_t>(index), kRelaxed);
    progress();
  }
  void progress() {
    if (notes_ == nullptr) return;
    notes_->steps.store(notes_->steps.load(kRelaxed) + 1, kRelaxed);
  }
  // The lane waits for somebody.
  void end() {
    if (notes_ == nullptr) return;
    notes_->doing.store(static_cast<uint32_t>(LaneDoing::nothing), kRelaxed);
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;

  LaneNotes* const notes_;
};

// Notes each node before it runs, and measures the longest one if asked to.
class NotingRunner final : public lanes::ForwardingRunner {
 public:
  // All must outlive it. `job`: its name. `clock` null: nothing is measured.
  NotingRunner(lanes::GraphRunner& runner, LaneNoting& noting, const std::string& job,
               const Clock* clock)
      : ForwardingRunner(runner), noting_(noting), job_(job), clock_(clock) {}

  Duration longest() const { return longest_; }

  lanes::NodeOutcome run_node(size_t index) override {
    noting_.node(index);
    if (has_fault_points()) [[unlikely]] {
      fault_point("worker.node_" + std::to_string(index) + "_of_" + job_);
    }
    if (clock_ == nullptr) return ForwardingRunner::run_node(index);
    const TimePoint start = clock_->now();
    const lanes::NodeOutcome outcome = ForwardingRunner::run_node(index);
    longest_ = std::max(longest_, clock_->now() - start);
    return outcome;
  }
  Status finish(std::span<const lanes::OutputView> outputs) override {
    noting_.progress();
    return ForwardingRunner::finish(outputs);
  }

 private:
  LaneNoting& noting_;
  const std::string& job_;
  const Clock* const clock_;
  Duration longest_;
};

}  // namespace laneway::service
