// index_trace: which bytes of an input a tensor of the graph is, when all that lies between are
// views, copies and casts that keep every integer. So that what an operator will index with can be
// looked at before the iteration starts. Pure functions over a graph that has passed graph_check.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "adaptor/checks/index_scan.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

struct InputElements {
  uint32_t input = 0;  // position in Graph::inputs
  IndexElements elements;
};

// Answers for one graph, which outlives it.
class IndexTrace {
 public:
  explicit IndexTrace(const lanes::Graph& graph);

  // Nothing when `value` is computed, lies in the image, or is written by some node.
  std::optional<InputElements> find(lanes::ValueIndex value) const;

  // Whether some node writes bytes of the storage that `value` lies on.
  bool is_written(lanes::ValueIndex value) const { return written_[graph_.values[value].storage]; }
  // The node that made the storage of `value`; kNowhere for inputs and the image.
  uint32_t maker(lanes::ValueIndex value) const { return made_by_[graph_.values[value].storage]; }

 private:
  const lanes::Graph& graph_;
  std::vector<bool> written_;      // by storage
  std::vector<uint32_t> made_by_;  // by storage
};

// All elements of a tensor.
IndexElements elements_of(const lanes::Value& tensor);

}  // namespace laneway::adaptor
