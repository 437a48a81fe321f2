// Placement: the values and nodes of a graph that stay on the CPU although its job is on another
// device. Optimizers read their step counters as Python numbers in every step; each of these reads
// would wait for the device. So, as in plain PyTorch, storages of a single number are the CPU's
// where only plain arithmetic touches them and a node reads them as numbers. States of the
// generator, which is an object of the CPU, and learning rates that a fused optimizer takes as
// tensors are the CPU's too. All other values are the device's: a number that no node reads would
// only keep work from it.
//
// On the CPU itself there is nothing to place (in_place).
//
// A pure function over a graph that has passed graph_check. Names nothing of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// Whether a node of this operator may run on the CPU over numbers that lie there: it must compute
// every element from its arguments alone, draw nothing and give the same bits as on the device.
bool runs_on_host(std::string_view op);

class Placement {
 public:
  // The placement for a device with memory that the CPU can address: every value is in place, and
  // no node moves.
  static Placement in_place();
  // The placement of a graph on another device. `slot_may_be_on_host` says which slots of the image
  // may be the CPU's.
  static Placement of(const lanes::Graph& graph,
                      const std::function<bool(uint32_t slot)>& slot_may_be_on_host);

  // Whether the CPU can address the storage's bytes, so that no copy is needed.
  bool storage_on_host(uint32_t storage) const {
    return in_place_ || (storage < storages_.size() && storages_[storage]);
  }
  // The same for the storage of a tensor value.
  bool value_on_host(const lanes::Graph& graph, lanes::ValueIndex value) const {
    return storage_on_host(graph.values[value].storage);
  }
  // Whether the device reads and writes all values in memory that the CPU can address.
  bool is_in_place() const { return in_place_; }
  // Whether a node runs on the CPU although its job is on another device: it touches at least one
  // tensor, and all its tensors are the CPU's. False for nodes over Python numbers alone, which run
  // on no device.
  bool node_on_host(size_t node) const { return node < nodes_.size() && nodes_[node]; }

  // The slots of the image that are the CPU's, ascending; and whether a node writes one of them.
  const std::vector<uint32_t>& host_slots() const { return host_slots_; }
  bool writes_host_slots() const { return writes_host_slots_; }

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  Placement() = default;

  void keep_what_is_read(const lanes::Graph& graph);
  void place_nodes(const lanes::Graph& graph);

  bool in_place_ = false;
  std::vector<bool> storages_;
  std::vector<bool> nodes_;
  std::vector<uint32_t> host_slots_;
  bool writes_host_slots_ = false;
};

}  // namespace laneway::adaptor
