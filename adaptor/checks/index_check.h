// IndexCheck: looks at indices before an operator does. Made once a graph, from the rules of its
// operators (index_rules.h).
//
// An index that comes from an input, directly or through views and casts, is looked at before the
// iteration starts: what the operator would refuse is refused there, with the input's name, and
// nothing has run. Indices that the graph computes are the operator's own to check; where torch's
// operator does not, they are looked at just before it runs, unless the operator that made them
// cannot make others or an operator before has looked. One thread at a time.
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
#include "lanes/graph_runner.h"

namespace laneway::adaptor {

// How it depends on the device.
struct IndexLooks {
  // Operators that check their indices do so by an exception, and have then done nothing. Where a
  // device asserts instead, what they would refuse is looked at before they run.
  bool operators_check = true;
  // By storage: whether its contents are the same in every iteration (stable_storages.h). Empty:
  // none is known to be.
  std::vector<bool> stable_storages{};
};

class IndexCheck {
 public:
  // `graph` outlives it. invalid_graph names node, operator and user line.
  static Result<IndexCheck> make(const lanes::Graph& graph, const IndexLooks& looks = {});

  // Before an iteration, when the inputs' sizes are right. invalid_argument names the first input
  // that holds an index out of range.
  Status check_inputs(std::span<const lanes::InputView> inputs) const;

  // Which nodes must be checked just before they run, in order.
  const std::vector<uint32_t>& checked_nodes() const { return checked_nodes_; }
  // ok when what `node` is about to index with is in range; `values` as Graph::values. Stable
  // storages are left out unless `look_at_stable`.
  Status check_node(uint32_t node, const std::vector<c10::IValue>& values,
                    bool look_at_stable = true) const;
  // The first node before which something is looked at in every iteration.
  std::optional<uint32_t> first_look_every_time() const;
  // Whether something is looked at in some iterations only.
  bool looks_at_stable() const;

 private:
  struct InputUse {
    InputElements source;
    IndexUse use;
  };

  struct ComputedUse : IndexUse {
    bool stable = false;
  };

  // Per value a range that an operator so far has held it to.
  using SeenRanges = std::unordered_map<lanes::ValueIndex, IndexRange>;

  explicit IndexCheck(const lanes::Graph& graph) : graph_(&graph) {}

  Status add_node(uint32_t node, const IndexTrace& trace, const IndexLooks& looks,
                  SeenRanges& seen);
  // Whether the input will be looked at for this use.
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
