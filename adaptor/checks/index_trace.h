// index_trace: finds the elements of an input that a tensor of the graph is made of, if only views,
// copies and casts that keep every integer lie between. With it an operator's indices can be
// checked before the iteration starts. Pure functions over a graph that has passed graph_check.
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

// The trace of one graph, which must outlive the object.
class IndexTrace {
 public:
  explicit IndexTrace(const lanes::Graph& graph);

  // The input's elements that `value` is made of. Nothing when it is computed, lies in the image,
  // or is written by a node.
  std::optional<InputElements> find(lanes::ValueIndex value) const;

  // Whether a node writes bytes of the storage of `value`.
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
