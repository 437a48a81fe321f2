// MarkingRunner: a GraphRunner that marks on the arena's tape where each node begins, and where the
// last one ends. Put around a graph's own runner for a probe, so that the tape tells which node
// allocated and freed what; nothing of it is in the way of planned iterations. Owns nothing.
#pragma once

#include "lanes/run/forwarding_runner.h"
#include "memory/lane_arena.h"

namespace laneway::service {

class MarkingRunner final : public lanes::ForwardingRunner {
 public:
  // Both must outlive it; `arena` is in a probe whenever a node runs.
  MarkingRunner(lanes::GraphRunner& runner, memory::LaneArena& arena)
      : ForwardingRunner(runner), arena_(arena) {}

  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;

 private:
  memory::LaneArena& arena_;
};

}  // namespace laneway::service
