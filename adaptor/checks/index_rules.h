// index_rules: the table of the operators' arguments that are indices, with the integers that each
// may hold for torch's CPU operators. Most operators check their indices themselves; those that do
// not, and that would read or write beyond their tensors, are marked. Pure functions over a graph
// that has passed graph_check.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "adaptor/checks/index_scan.h"
#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// One argument of one node that holds indices.
struct IndexUse {
  lanes::ValueIndex index = lanes::kNoValue;
  IndexRange range;
  uint32_t node = 0;
  std::string_view argument;  // its name in the schema
  std::string_view remedy;
  bool operator_checks = true;  // the operator refuses other integers; if false, it would access
                                // memory outside of its tensors
  // No check is needed where the value is this result of this operator; "": no operator gives it.
  std::string_view producer;
  uint32_t producer_result = 0;
};

// The index arguments of `node`. invalid_graph when its operator does not check them and the limit
// is not known before the iteration.
Result<std::vector<IndexUse>> index_uses(const lanes::Graph& graph, uint32_t node);

// When `node` calls an IndexUse's `producer`: its results hold only integers below this count, by
// its own arguments.
std::optional<uint64_t> produced_count(const lanes::Graph& graph, const lanes::Node& node);

}  // namespace laneway::adaptor
