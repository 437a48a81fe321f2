// TorchGraphRunner: runs a graph's nodes through torch's dispatcher (lanes/run/graph_runner.h): a
// program, its iteration, and the replayer of recordings. It takes the same steps on every device;
// a step that a device does not need (copies of inputs on the CPU, recordings where there are none)
// does nothing there.
//
// Requires: the executing thread is in a LaneScope from begin to the end of the iteration. One
// thread at a time.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "adaptor/run/graph_iteration.h"
#include "adaptor/run/graph_program.h"
#include "adaptor/run/graph_replayer.h"
#include "base/result.h"
#include "lanes/run/graph_runner.h"

namespace laneway::adaptor {

class TorchGraphRunner final : public lanes::GraphRunner {
 public:
  // See load_program.
  static Result<std::unique_ptr<TorchGraphRunner>> load(lanes::Graph graph, Placement placement,
                                                        const JobParts& job);
  // See bind_program.
  static Result<std::unique_ptr<TorchGraphRunner>> bind(
      std::shared_ptr<const ResolvedGraph> resolved, const JobParts& job);

  size_t node_count() const override { return program_->graph.nodes.size(); }
  size_t first_write() const override { return program_->graph.first_write; }
  Status begin(std::span<const lanes::InputView> inputs) override;
  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;
  void abandon() override;
  const Error& last_error() const override { return iteration_.last_error(); }

  const GraphProgram& program() const { return *program_; }
  GraphReplayer& replayer() { return replayer_; }

 private:
  explicit TorchGraphRunner(std::unique_ptr<const GraphProgram> program)
      : program_(std::move(program)), iteration_(*program_), replayer_(iteration_) {}

  // Sends the inputs, and begins recording or replaying. Called before the first node.
  lanes::NodeOutcome start();
  Status deliver(std::span<const lanes::OutputView> outputs);

  const std::unique_ptr<const GraphProgram> program_;
  GraphIteration iteration_;
  GraphReplayer replayer_;
};

}  // namespace laneway::adaptor
