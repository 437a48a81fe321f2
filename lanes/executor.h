// Executor: runs one iteration of a GraphRunner, node by node, on the calling thread. Before each
// node it tests one word; while that is zero it adds a load, a branch and the virtual call. It
// knows nothing of policies or memory: the word says when there is something to do, the hooks do
// it, the report says how it ended. Owns nothing, holds no state between iterations; used by one
// thread at a time.
//
// Up to the entry of the commit phase an iteration can be taken back: whatever stops it there
// leaves no trace. From then on requests to stop have no effect, and a failure is reported as
// failed_in_commit: persistent memory is partly written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "lanes/control_word.h"
#include "lanes/executor_hooks.h"
#include "lanes/graph_runner.h"

namespace laneway::lanes {

enum class IterationOutcome : uint8_t {
  completed,              // outputs are delivered
  abandoned_out_of_lane,  // no trace; run it again in a larger lane
  abandoned_by_request,   // no trace; run it again
  cancelled,              // no trace; the job is over
  failed_clean,           // no trace; running it again would fail again (inputs, operator)
  failed_in_commit,       // persistent memory is partly written: take it back or fail the job
};

const char* iteration_outcome_name(IterationOutcome outcome);

struct IterationReport {
  IterationOutcome outcome = IterationOutcome::completed;
  // Where it ended: a node's index; the node count for completed iterations and a failed finish;
  // 0 for refused inputs.
  size_t node = 0;
  Error error;  // of failed_clean and failed_in_commit
};

class Executor {
 public:
  // All three must outlive the executor.
  Executor(GraphRunner& runner, ControlWord& word, ExecutorHooks& hooks)
      : runner_(runner), word_(word), hooks_(hooks) {}

  // Runs begin, the nodes and finish, or abandons. Clears control::kAbandon before it returns: the
  // request was for this iteration.
  IterationReport run(std::span<const InputView> inputs, std::span<const OutputView> outputs);

 private:
  // The same without clearing.
  IterationReport run_iteration(std::span<const InputView> inputs,
                                std::span<const OutputView> outputs);
  // Nodes [from, to). True when all are done, else `report` says what stopped them.
  bool run_nodes(size_t from, size_t to, bool in_commit, IterationReport& report);
  // The word is not zero. False when the iteration has to stop before `node`.
  bool attend(size_t node, bool in_commit, IterationReport& report);
  // Drops the iteration.
  void stop(IterationOutcome outcome, size_t node, IterationReport& report);
  void stop_at_failed_node(NodeOutcome outcome, size_t node, bool in_commit,
                           IterationReport& report);

  GraphRunner& runner_;
  ControlWord& word_;
  ExecutorHooks& hooks_;
};

}  // namespace laneway::lanes
