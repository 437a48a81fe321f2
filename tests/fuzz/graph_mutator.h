// GraphMutator: damages graphs, from a seed: their bytes (which tries the decoder) or the fields of
// the decoded graph (which gets past the decoder and tries the rules). Not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "base/random.h"
#include "lanes/graph/graph.h"

namespace laneway::testing {

class GraphMutator {
 public:
  explicit GraphMutator(Random& random) : random_(random) {}

  // One to four changes: bits, bytes, 32-bit fields, removed, doubled or moved pieces.
  std::vector<std::byte> mutate(std::vector<std::byte> bytes);
  // One to three changes of indices, sizes, kinds, orders, names, writes.
  lanes::Graph mutate(lanes::Graph graph);

 private:
  void change(std::vector<std::byte>& bytes);
  void change(lanes::Graph& graph);
  void change_value(lanes::Value& value);
  void change_node(lanes::Graph& graph, lanes::Node& node);
  // A number at or near what limits and overflows are made of.
  uint64_t interesting();
  // Mostly in range, sometimes one past it, sometimes far off.
  uint32_t index(size_t size);

  Random& random_;
};

}  // namespace laneway::testing
