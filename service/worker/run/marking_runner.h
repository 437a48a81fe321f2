// MarkingRunner: a GraphRunner that marks on the arena's tape where each node begins, and where the
// last one ends, so that the tape tells which node allocated and freed what. Put around a graph's
// own runner while that is not known of its plan, or may not hold any more. Owns nothing.
#pragma once

#include "lanes/run/forwarding_runner.h"
#include "memory/lane_arena.h"

namespace laneway::service {

class MarkingRunner final : public lanes::ForwardingRunner {
 public:
  // Both must outlive it; `arena` is in an iteration whenever a node runs.
  MarkingRunner(lanes::GraphRunner& runner, memory::LaneArena& arena)
      : ForwardingRunner(runner), arena_(arena) {}

  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;

 private:
  memory::LaneArena& arena_;
};

}  // namespace laneway::service
