// Placement: what of a graph runs on the CPU although its job is on another device. Optimizers read
// their step counters as Python numbers in every step; on the device each of these reads would wait
// for it. So storages of a single number are the CPU's, as in plain PyTorch, where nothing but
// plain arithmetic touches them and something reads them as numbers. So are states of the
// generator, which is an object of the CPU's, and learning rates that a fused optimizer takes as
// tensors. Everything else is the device's: placing a number on the CPU that nobody reads would
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

// Whether a node of this operator may run on the CPU over numbers that are there: it computes every
// element from its arguments alone, draws nothing and gives the same bits as on the device.
bool runs_on_host(std::string_view op);

class Placement {
 public:
  // Of a device whose memory is the CPU's too: everything is where the CPU reaches it, and no node
  // has to be moved.
  static Placement in_place();
  // `slot_may_be_on_host` is asked for slots of the image.
  static Placement of(const lanes::Graph& graph,
                      const std::function<bool(uint32_t slot)>& slot_may_be_on_host);

  // Whether the CPU reaches its bytes: nothing has to be copied.
  bool storage_on_host(uint32_t storage) const {
    return in_place_ || (storage < storages_.size() && storages_[storage]);
  }
  // Of a tensor value.
  bool value_on_host(const lanes::Graph& graph, lanes::ValueIndex value) const {
    return storage_on_host(graph.values[value].storage);
  }
  // Whether the device reads and writes everything where the CPU has it.
  bool is_in_place() const { return in_place_; }
  // Whether a node runs on the CPU although its job is on another device: all tensors that it
  // touches are there, and there is one. Nodes over Python numbers alone are nowhere.
  bool node_on_host(size_t node) const { return node < nodes_.size() && nodes_[node]; }

  // The slots of the image that are there, ascending, and whether a node writes one.
  const std::vector<uint32_t>& host_slots() const { return host_slots_; }
  bool writes_host_slots() const { return writes_host_slots_; }

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
