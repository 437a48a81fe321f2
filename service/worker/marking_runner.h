// MarkingRunner: a GraphRunner that marks on the arena's tape where each node begins, and where the
// last one ends. Put around a graph's own runner for a probe, so that the tape tells which node
// allocated and freed what; nothing of it is in the way of planned iterations. Owns nothing.
#pragma once

#include "lanes/run/graph_runner.h"
#include "memory/lane_arena.h"

namespace laneway::service {

class MarkingRunner final : public lanes::GraphRunner {
 public:
  // Both must outlive it; `arena` is in a probe whenever a node runs.
  MarkingRunner(lanes::GraphRunner& runner, memory::LaneArena& arena)
      : runner_(runner), arena_(arena) {}

  size_t node_count() const override { return runner_.node_count(); }
  size_t first_write() const override { return runner_.first_write(); }
  Status begin(std::span<const lanes::InputView> inputs) override { return runner_.begin(inputs); }
  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;
  void abandon() override { runner_.abandon(); }
  const Error& last_error() const override { return runner_.last_error(); }

 private:
  lanes::GraphRunner& runner_;
  memory::LaneArena& arena_;
};

}  // namespace laneway::service
