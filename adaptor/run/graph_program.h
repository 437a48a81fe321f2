// GraphProgram: a job's graph in the form in which it runs: every operator resolved and checked
// against its schema, persistent tensors and inputs as views of borrowed storages, views of those
// evaluated once, checks, chains of elementwise nodes, and the placement of values. load_program
// (adaptor/run/graph_loader.h) makes it; it is immutable afterwards.
//
// It holds no value of an iteration (adaptor/run/graph_iteration.h). Several threads may read it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "adaptor/chains/chain_planner.h"
#include "adaptor/checks/index_check.h"
#include "adaptor/checks/operand_check.h"
#include "adaptor/device/torch_device.h"
#include "adaptor/operators/operator_call.h"
#include "adaptor/operators/scalar_call.h"
#include "adaptor/operators/torch_tensors.h"
#include "adaptor/run/placement.h"
#include "adaptor/run/state_mirror.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

// The parts of a job that its programs use. Requires: all of them outlive the programs.
struct JobParts {
  const TorchDevice& device;
  const pipeline::ImageLayout& layout;
  const BorrowedStorage& image;
  RandomState& random;
  StateMirror& mirror;
};

struct GraphProgram {
  // done_elsewhere: the nodes of a chain other than its last, which run with the last; and views
  // that were evaluated when the graph was loaded.
  enum class StepKind : uint8_t { call, scalar, chain, done_elsewhere };
  // The work of one node in an iteration.
  struct Step {
    StepKind kind = StepKind::done_elsewhere;
    bool check_operands = false;           // before it runs: OperandCheck::check_node
    bool check_indices = false;            // before it runs: IndexCheck::check_node
    bool check_results = false;            // in every iteration, not only in the first
    bool on_host = false;                  // a node that runs on the CPU, see Placement
    bool enqueues = true;                  // the node enqueues work on the lane's device
    uint32_t index = 0;                    // into calls, scalars or chains
    std::vector<lanes::ValueIndex> drops;  // values that no later node uses
  };
  struct Chain {
    PlannedChain planned;
    std::vector<uint32_t> calls;  // its nodes one by one, used when the layouts are not as declared
  };

  GraphProgram(lanes::Graph loaded, Placement placed, const JobParts& parts)
      : graph(std::move(loaded)),
        job(parts),
        placement(std::move(placed)),
        values(graph.values.size()),
        is_static(graph.values.size(), false) {}
  GraphProgram(const GraphProgram&) = delete;
  GraphProgram& operator=(const GraphProgram&) = delete;

  // The device of a node's tensors.
  c10::Device device_of(size_t node) const {
    return placement.node_on_host(node) ? c10::Device(c10::DeviceType::CPU) : job.device.device();
  }
  // Whether the tensor lies in the image, in its mirror or in an input.
  bool is_borrowed(const at::Tensor& tensor) const;
  // The number of steps that run in an iteration.
  size_t live_step_count() const;

  // Compares the results of a node that ran with the graph's declarations: dtype, sizes, memory,
  // and strides where a node relies on them. Errors: invalid_graph, other_layout.
  Status check_node_results(size_t node, const ValueTable& results) const;

  const lanes::Graph graph;
  const JobParts job;
  const Placement placement;
  bool draws = false;                   // an iteration changes the job's random state
  std::vector<bool> strided;            // by storage, see strided_storages
  std::vector<BorrowedStorage> inputs;  // by graph input; those of numbers have no bytes
  ValueTable values;                    // the static values, which are the same in every iteration
  StaticValues is_static;
  std::vector<lanes::ValueIndex> dynamic;  // the others
  std::optional<IndexCheck> index_check;
  std::optional<OperandCheck> operand_check;
  std::vector<OperatorCall> calls;
  std::vector<ScalarCall> scalars;
  std::vector<Chain> chains;  // an iteration runs copies of them, which have room for its numbers
  std::vector<Step> steps;    // by node
  std::vector<StateMirror::Piece>
      flushed;  // the pieces of the mirror that the CPU's nodes may write
  // Whether the device writes slots that other graphs of the job use on the CPU.
  bool writes_mirror_on_device = false;

 private:
  Status check_is_new(const lanes::Node& node, const ValueTable& results) const;
  Status check_strides(size_t node, const ValueTable& results) const;
};

}  // namespace laneway::adaptor
