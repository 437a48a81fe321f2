// SyntheticGraph: a graph of a SyntheticJob, and its runner: nodes are arithmetic over floats
// (synthetic_operators.h), ephemeral storages come from the lane that the thread has entered and go
// when the graph says that they die. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "adaptor/device/device_graph.h"
#include "base/result.h"
#include "lanes/graph/graph_sizes.h"
#include "lanes/run/graph_runner.h"
#include "pipeline/image.h"
#include "tests/service/synthetic/synthetic_operators.h"

namespace laneway::testing {

// What a job shares with its graphs.
struct SyntheticState {
  SyntheticState(pipeline::ImageLayout image_layout, int64_t pool_alignment)
      : layout(std::move(image_layout)), alignment(pool_alignment) {}

  const pipeline::ImageLayout layout;
  const int64_t alignment;
  std::byte* image = nullptr;
  uint64_t random = 1;
};

// What equal graphs of several jobs share.
struct SyntheticProgram final : adaptor::DeviceProgram {
  // invalid_graph names the operator that does not exist here.
  static Result<std::shared_ptr<const SyntheticProgram>> make(lanes::Graph graph,
                                                              int64_t alignment);
  explicit SyntheticProgram(lanes::Graph of) : graph(std::move(of)) {}

  const lanes::Graph graph;
  const lanes::GraphLifetimes lifetimes = lanes::graph_lifetimes(graph);
  lanes::GraphMemory memory;
  Bytes probe_height;
  std::vector<const OperatorRow*> operators;  // by node; null: a view
};

class SyntheticGraph final : public adaptor::DeviceGraph, private lanes::GraphRunner {
 public:
  // `state` outlives all use.
  SyntheticGraph(std::shared_ptr<const SyntheticProgram> program, SyntheticState& state,
                 Bytes most);

  const lanes::Graph& graph() const override { return graph_; }
  uint32_t threads() const override { return static_cast<uint32_t>(graph_.context.threads); }
  const lanes::GraphMemory& memory() const override { return program_->memory; }
  adaptor::ProgramHandle program() const override { return program_; }
  Bytes probe_need() const override { return probe_need_; }
  bool draws() const override;
  lanes::GraphRunner& runner() override { return *this; }
  void allow_replay(bool) override {}
  void allow_existing_recordings() override {}
  bool replays() const override { return false; }
  uint64_t replayed() const override { return 0; }
  const adaptor::Recordings& recordings() const override { return recordings_; }

 private:
  size_t node_count() const override { return graph_.nodes.size(); }
  size_t first_write() const override { return graph_.first_write; }
  Status begin(std::span<const lanes::InputView> inputs) override;
  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;
  void abandon() override;
  const Error& last_error() const override { return error_; }

  // The storages of the node's results that are made by it. False: one does not fit the lane.
  bool make_storages(size_t node);
  void free_storage(uint32_t storage);
  std::span<float> floats(lanes::ValueIndex value) const;

  const std::shared_ptr<const SyntheticProgram> program_;
  const lanes::Graph& graph_ = program_->graph;
  SyntheticState& state_;
  const Bytes probe_need_;
  std::vector<std::byte*> places_;        // by storage; null: not there now
  std::vector<lanes::InputView> inputs_;  // of the iteration
  uint64_t random_before_ = 0;
  Error error_;
  const adaptor::Recordings recordings_;  // none is made
};

}  // namespace laneway::testing
