// Sizes of a graph, known before it ever runs: its persistent bytes in order of first use (the
// layout of an image), the values that die after each node, the allocation tape that follows, the
// curve e(t), its peak E and the bytes that an iteration can still need from each node on. All are
// exact except for the memory that operators allocate internally (workspaces), which only a probe
// sees. Requires: the graph has passed check_graph. Pure functions and plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "lanes/graph/graph.h"
#include "memory/tape.h"

namespace laneway::lanes {

// Lists of indices, one per node, in one array: the entries "after node i".
class PerNodeLists {
 public:
  // The pairs (nodes[k], items[k]) sorted by node; items of one node keep their order.
  PerNodeLists(uint32_t node_count, std::span<const uint32_t> nodes,
               std::span<const uint32_t> items);
  PerNodeLists() = default;

  std::span<const uint32_t> at(uint32_t node) const {
    return std::span(items_).subspan(starts_[node], starts_[node + 1] - starts_[node]);
  }

 private:
  std::vector<uint32_t> starts_;  // node count + 1
  std::vector<uint32_t> items_;
};

// Lifetimes within one iteration.
struct GraphLifetimes {
  // Values that are not used after node i: inputs and node results, ascending. It never has outputs
  // (finish reads them), persistent tensors that no node makes, or unused inputs.
  PerNodeLists values_dying;
  // Ephemeral storages whose last value dies after node i, in the order in which dropping
  // values_dying in its order frees them. A storage of an output lives to the end.
  PerNodeLists storages_dying;
  // Ephemeral storages that node i makes, in order of its results.
  PerNodeLists storages_made;
};

// The predicted memory of one iteration.
struct GraphMemory {
  // One allocation per ephemeral storage that has bytes, at the node that makes it, and its free
  // after the node of its last use; storages of outputs are freed at the end.
  memory::AllocationTape tape;
  // The position of the tape before each node, and behind the last one (outputs still alive).
  std::vector<memory::TapePosition> marks;
  // e(t): bytes alive while node i runs (its results there, nothing freed yet), each allocation
  // rounded up to the alignment.
  std::vector<Bytes> live;
  // The highest of live[i], live[i + 1], …: the bytes that the iteration can still reach from node
  // i on. One entry more than nodes; the last has the bytes of the outputs at the end.
  std::vector<Bytes> reach;
  Bytes peak;  // E: the highest of all, reach[0]
};

// All slots of an image: first those that the graph uses, in the order in which its nodes first
// name them (outputs last), then the others ascending. A permutation of 0 … slot_count - 1.
std::vector<uint32_t> first_use_order(const Graph& graph, uint32_t slot_count);

GraphLifetimes graph_lifetimes(const Graph& graph);

// Requires: `alignment` is a power of two.
GraphMemory predict_memory(const Graph& graph, const GraphLifetimes& lifetimes, int64_t alignment);

}  // namespace laneway::lanes
