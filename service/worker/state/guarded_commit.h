// GuardedCommit: the entry of one iteration's commit phase where a journal is kept: what came
// before has retired, the state that it overwrites is kept (state_guard.h), and the journal says
// that it writes. Lives as long as the iteration runs.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "service/worker/common/lane_noting.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/work.h"
#include "service/worker/state/state_guard.h"
#include "service/worker/state/undo_runner.h"

namespace laneway::service {

class GuardedCommit final : public CommitEntry {
 public:
  // All must outlive it. `settle` retires what is in flight; false: the iteration must not write.
  GuardedCommit(StateGuard& guard, WorkerJob& job, const WorkerGraph& graph, Work& work,
                std::function<bool()> settle)
      : guard_(guard), job_(job), graph_(graph), work_(work), settle_(std::move(settle)) {}

  lanes::GraphRunner& around(lanes::GraphRunner& runner) override {
    lanes::GraphRunner* inner = &runner;
    if (guard_.can_undo() && !graph_.writes.empty()) {
      inner = &undo_.emplace(runner, graph_.writes, job_.image, job_.torch->layout());
    }
    return noting_.emplace(*inner, guard_.begin(job_, graph_), job_.name, guard_.clock_for(graph_));
  }
  bool enter() override {
    if (!settle_()) return false;
    guard_.before_commit(job_, graph_, work_.inputs(), undo_ ? &*undo_ : nullptr);
    work_.enter_commit();
    return true;
  }
  // What the iteration's nodes and the copies before them took.
  StateGuard::Measured measured() const {
    return {.longest_node = noting_ ? noting_->longest() : Duration(),
            .undo = undo_ ? undo_->took() : Duration()};
  }

 private:
  StateGuard& guard_;
  WorkerJob& job_;
  const WorkerGraph& graph_;
  Work& work_;
  const std::function<bool()> settle_;
  std::optional<UndoRunner> undo_;
  std::optional<NotingRunner> noting_;
};

}  // namespace laneway::service
