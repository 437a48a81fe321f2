// IndexCase: an operator that indexes, in a small graph, with the integers that it may index with;
// one for every rule of adaptor/checks/index_rules.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lanes/graph/graph.h"
#include "tests/support/graph_builder.h"

namespace laneway::testing {

struct IndexCase {
  std::string op;
  std::vector<int64_t> sizes;  // of the tensor of indices
  int64_t low = 0;
  int64_t high = 4;
  // Adds a node that uses `index`, and inputs for its other tensors.
  std::function<void(GraphBuilder&, lanes::ValueIndex index)> build;
  std::optional<int64_t> also;
};

std::vector<IndexCase> index_cases();

}  // namespace laneway::testing
