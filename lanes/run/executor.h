// Executor: runs one iteration of a GraphRunner, node by node, on the calling thread. Before each
// node it tests one word; while the word is zero a node costs a load, a branch and the virtual
// call. It knows nothing of policies or memory: a bit of the word asks it to act, the hooks act,
// the report has the outcome. It owns nothing and has no state between iterations. One thread at a
// time may use it.
//
// Up to the entry of the commit phase an iteration can be abandoned without a trace. From then on
// requests to stop or to pause have no effect, and a failure is reported as failed_in_commit:
// persistent memory is partly written, and a process that died there would cost the job a
// restoration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "lanes/run/control_word.h"
#include "lanes/run/executor_hooks.h"
#include "lanes/run/graph_runner.h"

namespace laneway::lanes {

enum class IterationOutcome : uint8_t {
  completed,              // outputs are delivered
  abandoned_out_of_lane,  // no trace; run it again in a larger lane
  abandoned_by_request,   // no trace; run it again
  cancelled,              // no trace; the job is over
  failed_clean,           // no trace; running it again would fail again (inputs, operator)
  failed_in_commit,       // persistent memory is partly written: restore it or fail the job
};

const char* iteration_outcome_name(IterationOutcome outcome);

struct IterationReport {
  IterationOutcome outcome = IterationOutcome::completed;
  // The node at which the iteration ended; the node count for completed iterations and a failed
  // finish; 0 for refused inputs.
  size_t node = 0;
  Error error;               // set for failed_clean and failed_in_commit
  bool out_of_lane = false;  // of failed_in_commit: an allocation did not fit the lane
};

class Executor {
 public:
  // All three must outlive the executor.
  Executor(GraphRunner& runner, ControlWord& word, ExecutorHooks& hooks)
      : runner_(runner), word_(word), hooks_(hooks) {}

  // Runs begin, the nodes and finish, or abandons. Clears control::kAbandon before it returns,
  // because the request was for this iteration.
  IterationReport run(std::span<const InputView> inputs, std::span<const OutputView> outputs);

 private:
  // The same, but does not clear the word.
  IterationReport run_iteration(std::span<const InputView> inputs,
                                std::span<const OutputView> outputs);
  // Runs the nodes [from, to). Returns true when all are done; else `report` has the reason.
  bool run_nodes(size_t from, size_t to, bool in_commit, IterationReport& report);
  // Acts on a word that is not zero. Returns false when the iteration must stop before `node`.
  bool attend(size_t node, bool in_commit, IterationReport& report);
  // Abandons the iteration with this outcome.
  void stop(IterationOutcome outcome, size_t node, IterationReport& report);
  void stop_at_failed_node(NodeOutcome outcome, size_t node, bool in_commit,
                           IterationReport& report);

  GraphRunner& runner_;
  ControlWord& word_;
  ExecutorHooks& hooks_;
};

}  // namespace laneway::lanes
