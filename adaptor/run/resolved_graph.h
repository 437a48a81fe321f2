// ResolvedGraph: what of a graph in the form in which it runs is the same for every job that has
// it: every operator resolved and checked against its schema, checks of indices and operands,
// chains of elementwise nodes, and the placement of values.
// load_program (adaptor/run/graph_loader.h) makes it with the first job's program; those of further
// jobs are bound to it.
//
// Holds nothing of any job: no tensor of an image, no generator. Immutable but for `verified`, so
// several threads may read it; it may outlive the jobs.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "adaptor/chains/chain_planner.h"
#include "adaptor/checks/index_check.h"
#include "adaptor/checks/operand_check.h"
#include "adaptor/operators/operator_call.h"
#include "adaptor/operators/scalar_call.h"
#include "adaptor/run/placement.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

struct ResolvedGraph {
  // done_elsewhere: the nodes of a chain other than its last, which run with the last; and views
  // that are evaluated when a job gets the graph.
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
  // A view of static values, evaluated when a job gets the graph.
  struct View {
    uint32_t node = 0;
    OperatorCall call;
  };

  ResolvedGraph(lanes::Graph loaded, Placement placed)
      : graph(std::move(loaded)),
        placement(std::move(placed)),
        is_static(graph.values.size(), false) {}

  const lanes::Graph graph;
  const Placement placement;
  bool draws = false;         // an iteration changes the job's random state
  std::vector<bool> strided;  // by storage, see strided_storages
  StaticValues is_static;
  std::vector<lanes::ValueIndex> dynamic;  // the values that are not static
  std::optional<IndexCheck> index_check;
  std::optional<OperandCheck> operand_check;
  std::vector<OperatorCall> calls;  // unbound
  std::vector<View> views;          // unbound, in the order of their nodes
  std::vector<ScalarCall> scalars;
  std::vector<Chain> chains;  // an iteration runs copies of them, which have room for its numbers
  std::vector<Step> steps;    // by node
  // Whether the results of a whole iteration have been compared with the graph and agreed.
  mutable std::atomic<bool> verified{false};
};

}  // namespace laneway::adaptor
