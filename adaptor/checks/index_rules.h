// index_rules: which arguments of operators are indices, and which integers each may hold: the
// table of what torch's CPU operators do with them. Most operators check their indices themselves;
// some do not and read or write beyond their tensors, and those are marked. Pure functions over a
// graph that has passed graph_check.
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
  bool operator_checks = true;  // the operator itself refuses others; else its memory is not safe
  // Not to be checked where the value is this result of this operator; "" where none gives it.
  std::string_view producer;
  uint32_t producer_result = 0;
};

// What `node` indexes with. invalid_graph when its operator does not check and the limit is not
// known before the iteration.
Result<std::vector<IndexUse>> index_uses(const lanes::Graph& graph, uint32_t node);

// The integers that results of `producer` (an IndexUse's) hold, when `node` is a call of it; as
// many as its own arguments allow.
std::optional<uint64_t> produced_count(const lanes::Graph& graph, const lanes::Node& node);

}  // namespace laneway::adaptor
