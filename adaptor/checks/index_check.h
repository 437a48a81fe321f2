// IndexCheck: checks indices before an operator uses them. One object per graph, made from the
// rules of its operators (index_rules.h).
//
// An index that comes from an input, directly or through views and casts, is checked before the
// iteration starts: an index that the operator would refuse is refused there, with the input's
// name, and nothing has run. The operator itself checks indices that the graph computes. Where
// torch's operator does not, they are checked just before it runs, unless the operator that made
// them gives only valid ones or an earlier operator has checked them. One thread at a time.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "adaptor/checks/index_rules.h"
#include "adaptor/checks/index_trace.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/run/graph_runner.h"

namespace laneway::adaptor {

// The differences between devices.
struct IndexLooks {
  // Operators that check their indices throw an exception and have then changed nothing. Where a
  // device asserts instead, their indices are checked before they run.
  bool operators_check = true;
  // By storage: whether its contents are the same in every iteration (stable_storages.h). Empty:
  // not known for any storage.
  std::vector<bool> stable_storages{};
};

class IndexCheck {
 public:
  // `graph` must outlive the object. invalid_graph names node, operator and user line.
  static Result<IndexCheck> make(const lanes::Graph& graph, const IndexLooks& looks = {});

  // Checks the indices in the inputs of an iteration. invalid_argument names the first input that
  // holds an index out of range. Requires: the inputs' sizes have been checked.
  Status check_inputs(std::span<const lanes::InputView> inputs) const;

  // The nodes that must be checked just before they run, in order.
  const std::vector<uint32_t>& checked_nodes() const { return checked_nodes_; }
  // ok when the indices that `node` is about to use are in range; `values` as Graph::values.
  // Indices in stable storages are checked only if `look_at_stable`.
  Status check_node(uint32_t node, const std::vector<c10::IValue>& values,
                    bool look_at_stable = true) const;
  // The first node before which a check runs in every iteration.
  std::optional<uint32_t> first_look_every_time() const;
  // Whether some checks run in some iterations only.
  bool looks_at_stable() const;

 private:
  struct InputUse {
    InputElements source;
    IndexUse use;
  };

  struct ComputedUse : IndexUse {
    bool stable = false;
  };

  // For each value, a range that an earlier operator has checked.
  using SeenRanges = std::unordered_map<lanes::ValueIndex, IndexRange>;

  explicit IndexCheck(const lanes::Graph& graph) : graph_(&graph) {}

  Status add_node(uint32_t node, const IndexTrace& trace, const IndexLooks& looks,
                  SeenRanges& seen);
  // Adds a check of the input for this use. Returns whether it will be made.
  bool add_input(InputElements source, const IndexUse& use);
  Error input_error(const InputUse& check, const IndexElements::Outside& found) const;
  std::string user_line(uint32_t node) const;

  const lanes::Graph* graph_;
  std::vector<InputUse> inputs_;
  std::vector<ComputedUse> computed_;  // by node
  std::vector<uint32_t> ctc_;          // nodes
  std::vector<uint32_t> checked_nodes_;
};

}  // namespace laneway::adaptor
