#include "lanes/run/executor.h"

#include <algorithm>
#include <string>

namespace laneway::lanes {

const char* iteration_outcome_name(IterationOutcome outcome) {
  switch (outcome) {
    case IterationOutcome::completed: return "completed";
    case IterationOutcome::abandoned_out_of_lane: return "abandoned_out_of_lane";
    case IterationOutcome::abandoned_by_request: return "abandoned_by_request";
    case IterationOutcome::cancelled: return "cancelled";
    case IterationOutcome::failed_clean: return "failed_clean";
    case IterationOutcome::failed_in_commit: return "failed_in_commit";
  }
  return "?";
}

IterationReport Executor::run(std::span<const InputView> inputs,
                              std::span<const OutputView> outputs) {
  IterationReport report = run_iteration(inputs, outputs);
  if (word_.any()) word_.clear(control::kAbandon);
  return report;
}

IterationReport Executor::run_iteration(std::span<const InputView> inputs,
                                        std::span<const OutputView> outputs) {
  IterationReport report;
  if (Status begun = runner_.begin(inputs); !begun) {
    report.outcome = IterationOutcome::failed_clean;
    report.error = begun.error();
    return report;
  }
  const size_t count = runner_.node_count();
  const size_t first_write = std::min(runner_.first_write(), count);
  if (!run_nodes(0, first_write, false, report)) return report;
  if (first_write < count) {
    if (word_.any() && !attend(first_write, false, report)) return report;
    switch (hooks_.enter_commit_phase(first_write)) {
      case CommitDecision::go: break;
      case CommitDecision::grow:
        stop(IterationOutcome::abandoned_out_of_lane, first_write, report);
        return report;
      case CommitDecision::abandon:
        stop(IterationOutcome::abandoned_by_request, first_write, report);
        return report;
      case CommitDecision::cancel:
        stop(IterationOutcome::cancelled, first_write, report);
        return report;
    }
    if (!run_nodes(first_write, count, true, report)) return report;
  }
  report.node = count;
  if (Status finished = runner_.finish(outputs); !finished) {
    report.outcome =
        first_write < count ? IterationOutcome::failed_in_commit : IterationOutcome::failed_clean;
    report.error = finished.error();
  }
  return report;
}

bool Executor::run_nodes(size_t from, size_t to, bool in_commit, IterationReport& report) {
  for (size_t node = from; node < to; ++node) {
    if (word_.any()) [[unlikely]] {
      if (!attend(node, in_commit, report)) return false;
    }
    const NodeOutcome outcome = runner_.run_node(node);
    if (outcome != NodeOutcome::done) [[unlikely]] {
      stop_at_failed_node(outcome, node, in_commit, report);
      return false;
    }
  }
  return true;
}

bool Executor::attend(size_t node, bool in_commit, IterationReport& report) {
  while (!in_commit) {
    const uint32_t bits = word_.bits();
    if ((bits & control::kStop) != 0) {
      stop((bits & control::kCancel) != 0 ? IterationOutcome::cancelled
                                          : IterationOutcome::abandoned_by_request,
           node, report);
      return false;
    }
    if ((bits & control::kPause) == 0) return true;
    hooks_.pause(node);
  }
  return true;
}

void Executor::stop(IterationOutcome outcome, size_t node, IterationReport& report) {
  runner_.abandon();
  report.outcome = outcome;
  report.node = node;
}

void Executor::stop_at_failed_node(NodeOutcome outcome, size_t node, bool in_commit,
                                   IterationReport& report) {
  const bool out_of_lane = outcome == NodeOutcome::out_of_lane;
  // An allocation that did not fit left persistent memory alone, so at the first node that writes
  // nothing is lost either.
  const bool untouched = !in_commit || (out_of_lane && node == runner_.first_write());
  if (out_of_lane && untouched) {
    stop(IterationOutcome::abandoned_out_of_lane, node, report);
    return;
  }
  report.out_of_lane = out_of_lane;
  // Before abandon, which may drop it.
  report.error = out_of_lane
                     ? Error{ErrorCode::out_of_memory,
                             "node " + std::to_string(node) +
                                 " did not fit its lane inside the commit phase, which began at "
                                 "node " +
                                 std::to_string(runner_.first_write()) +
                                 "; the job's state is partly written, restore it from a "
                                 "checkpoint and report the graph"}
                     : runner_.last_error();
  stop(in_commit ? IterationOutcome::failed_in_commit : IterationOutcome::failed_clean, node,
       report);
}

}  // namespace laneway::lanes
