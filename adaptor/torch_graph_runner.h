// TorchGraphRunner: runs a graph's nodes through torch's dispatcher (lanes/graph_runner.h). Made
// once per graph of a job: every operator resolved and checked against its schema, persistent
// tensors and inputs as views of borrowed storages, views of those evaluated once and for all. It
// expects the executing thread to stand in a NumericScope and a LaneBinding; it does not know
// about lanes itself. Driven by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adaptor/chain_planner.h"
#include "adaptor/operator_call.h"
#include "adaptor/random_state.h"
#include "adaptor/scalar_call.h"
#include "adaptor/torch_tensors.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/graph_runner.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

class TorchGraphRunner final : public lanes::GraphRunner {
 public:
  // `graph` has passed graph_check against the image's slots. `image` and `random` belong to the
  // job and outlive the runner. invalid_graph names node, operator and user line.
  static Result<std::unique_ptr<TorchGraphRunner>> load(lanes::Graph graph,
                                                        const pipeline::ImageLayout& layout,
                                                        const BorrowedStorage& image,
                                                        RandomState& random);

  size_t node_count() const override { return graph_.nodes.size(); }
  size_t first_write() const override { return graph_.first_write; }
  Status begin(std::span<const lanes::InputView> inputs) override;
  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;
  void abandon() override;
  const Error& last_error() const override { return last_error_; }

  const lanes::Graph& graph() const { return graph_; }
  // How many steps run in an iteration (views were evaluated at load, chains are one).
  size_t live_node_count() const;

 private:
  // Nodes of a chain but its last are done elsewhere, like those that were evaluated at load.
  enum class StepKind : uint8_t { call, scalar, chain, done_elsewhere };
  struct Step {
    StepKind kind = StepKind::done_elsewhere;
    uint32_t index = 0;                    // into calls_ or scalars_
    std::vector<lanes::ValueIndex> drops;  // values nobody needs behind this node
  };

  TorchGraphRunner(lanes::Graph graph, RandomState& random);

  Status make_static_values(const pipeline::ImageLayout& layout, const BorrowedStorage& image);
  Status resolve_nodes(const BorrowedStorage& image);
  // Evaluates a view of static values now; false when its result is not a view after all.
  bool evaluate_at_load(const OperatorCall& call, const lanes::Node& node,
                        const BorrowedStorage& image);
  void find_last_uses();
  void find_chains();
  void run_chain(uint32_t index);
  Status check_results(size_t index) const;
  void drop_values();
  Status copy_out(lanes::ValueIndex value, const lanes::OutputView& output) const;
  void fail(size_t index, const std::string& what);

  lanes::Graph graph_;
  RandomState& random_;
  bool draws_ = false;
  bool verified_ = false;  // a whole iteration's results had the shapes that the graph declares
  std::vector<BorrowedStorage> inputs_;  // by graph input; numbers have an empty one
  ValueTable values_;
  StaticValues is_static_;
  std::vector<lanes::ValueIndex> dynamic_;  // the others
  std::vector<OperatorCall> calls_;
  std::vector<ScalarCall> scalars_;
  struct Chain {
    PlannedChain planned;
    std::vector<uint32_t> calls;  // its nodes one by one, for when the layouts are not as declared
  };
  std::vector<Chain> chains_;
  std::vector<uint32_t> runs_at_;  // by node: where it really runs, its own place but for chains
  std::vector<Step> steps_;
  torch::jit::Stack stack_;
  Error last_error_;
};

}  // namespace laneway::adaptor
