#include "adaptor/placement.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {
namespace {

constexpr std::string_view kReadNumber = "aten::_local_scalar_dense";

// Sorted. What optimizers do with their counters, in single and in _foreach_ form. Operators whose
// CPU kernels round otherwise than the device's (powers, exponentials) are not among them: the
// numbers that they would leave in the image would differ from eager's on the device.
constexpr std::string_view kHostOperators[] = {
    "aten::_foreach_add.List",
    "aten::_foreach_add.Scalar",
    "aten::_foreach_add.ScalarList",
    "aten::_foreach_add.Tensor",
    "aten::_foreach_add_.List",
    "aten::_foreach_add_.Scalar",
    "aten::_foreach_add_.ScalarList",
    "aten::_foreach_add_.Tensor",
    "aten::_foreach_copy_",
    "aten::_foreach_mul_.Scalar",
    "aten::_foreach_neg_",
    "aten::_foreach_sub.List",
    "aten::_foreach_sub.Scalar",
    "aten::_foreach_sub_.List",
    "aten::_foreach_sub_.Scalar",
    "aten::_local_scalar_dense",
    "aten::_to_copy",
    "aten::add.Scalar",
    "aten::add.Tensor",
    "aten::add_.Scalar",
    "aten::add_.Tensor",
    "aten::alias",
    "aten::clone",
    "aten::copy",
    "aten::copy_",
    "aten::detach",
    "aten::fill.Scalar",
    "aten::fill.Tensor",
    "aten::fill_.Scalar",
    "aten::fill_.Tensor",
    "aten::full",
    "aten::full_like",
    "aten::lift_fresh_copy",
    "aten::mul.Scalar",
    "aten::mul.Tensor",
    "aten::mul_.Scalar",
    "aten::mul_.Tensor",
    "aten::neg",
    "aten::neg_",
    "aten::ones",
    "aten::ones_like",
    "aten::reshape",
    "aten::scalar_tensor",
    "aten::sub.Scalar",
    "aten::sub.Tensor",
    "aten::sub_.Scalar",
    "aten::sub_.Tensor",
    "aten::view",
    "aten::zero_",
    "aten::zeros",
    "aten::zeros_like",
};
static_assert(std::is_sorted(std::begin(kHostOperators), std::end(kHostOperators)));

// Calls visit(storage) for every storage that the node touches, as often as it does.
template <class Visit>
void for_each_storage(const lanes::Graph& graph, const lanes::Node& node, const Visit& visit) {
  const auto of_value = [&](lanes::ValueIndex value) {
    if (graph.values[value].kind == lanes::ValueKind::tensor) visit(graph.values[value].storage);
  };
  lanes::for_each_argument_value(node, of_value);
  lanes::for_each_result_value(node, of_value);
}

// Storages of a single number: all their tensors have one element, and there is one.
std::vector<bool> single_numbers(const lanes::Graph& graph,
                                 const std::function<bool(uint32_t)>& slot_may_be) {
  std::vector<bool> single(graph.storages.size(), false);
  std::vector<bool> seen(graph.storages.size(), false);
  for (const lanes::Value& value : graph.values) {
    if (value.kind != lanes::ValueKind::tensor) continue;
    const lanes::Storage& storage = graph.storages[value.storage];
    const bool one = std::all_of(value.sizes.begin(), value.sizes.end(),
                                 [](int64_t size) { return size == 1; }) &&
                     storage.bytes == static_cast<uint64_t>(lanes::dtype_bytes(value.dtype));
    single[value.storage] = one && (single[value.storage] || !seen[value.storage]);
    seen[value.storage] = true;
  }
  for (size_t s = 0; s < single.size(); ++s) {
    const lanes::Storage& storage = graph.storages[s];
    if (storage.kind == lanes::StorageKind::input) single[s] = false;
    if (storage.kind == lanes::StorageKind::persistent && single[s]) {
      single[s] = slot_may_be(storage.index);
    }
  }
  return single;
}

// Groups of storages that nodes touch together.
class Groups {
 public:
  explicit Groups(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t of(size_t member) {
    while (parent_[member] != member) member = parent_[member] = parent_[parent_[member]];
    return member;
  }
  void join(size_t a, size_t b) { parent_[of(a)] = of(b); }

 private:
  std::vector<size_t> parent_;
};

}  // namespace

bool runs_on_host(std::string_view op) {
  return std::binary_search(std::begin(kHostOperators), std::end(kHostOperators), op);
}

Placement Placement::of(const lanes::Graph& graph,
                        const std::function<bool(uint32_t slot)>& slot_may_be_on_host) {
  Placement placement;
  std::vector<bool>& on_host = placement.storages_;
  on_host = single_numbers(graph, slot_may_be_on_host);
  for (bool changed = true; changed;) {
    changed = false;
    for (const lanes::Node& node : graph.nodes) {
      bool all = runs_on_host(node.op);
      bool any = false;
      for_each_storage(graph, node, [&](uint32_t storage) {
        all = all && on_host[storage];
        any = any || on_host[storage];
      });
      if (all || !any) continue;
      for_each_storage(graph, node, [&](uint32_t storage) { on_host[storage] = false; });
      changed = true;
    }
  }
  placement.keep_what_is_read(graph);
  placement.place_nodes(graph);
  return placement;
}

void Placement::keep_what_is_read(const lanes::Graph& graph) {
  Groups groups(storages_.size());
  std::vector<bool> read(storages_.size(), false);
  for (const lanes::Node& node : graph.nodes) {
    size_t first = storages_.size();
    for_each_storage(graph, node, [&](uint32_t storage) {
      if (!storages_[storage]) return;
      if (first == storages_.size()) first = storage;
      groups.join(storage, first);
      if (node.op == kReadNumber) read[storage] = true;
    });
  }
  std::vector<bool> group_read(storages_.size(), false);
  for (size_t s = 0; s < storages_.size(); ++s) {
    if (read[s]) group_read[groups.of(s)] = true;
  }
  for (size_t s = 0; s < storages_.size(); ++s) {
    if (!group_read[groups.of(s)]) storages_[s] = false;
  }
}

void Placement::place_nodes(const lanes::Graph& graph) {
  nodes_.assign(graph.nodes.size(), false);
  for (size_t index = 0; index < graph.nodes.size(); ++index) {
    for_each_storage(graph, graph.nodes[index],
                     [&](uint32_t storage) { nodes_[index] = storages_[storage]; });
    any_host_nodes_ = any_host_nodes_ || nodes_[index];
    if (!nodes_[index]) continue;
    for (const lanes::ValueIndex written : graph.nodes[index].writes) {
      const lanes::Storage& storage = graph.storages[graph.values[written].storage];
      writes_host_slots_ |= storage.kind == lanes::StorageKind::persistent;
    }
  }
  for (size_t s = 0; s < storages_.size(); ++s) {
    if (!storages_[s] || graph.storages[s].kind != lanes::StorageKind::persistent) continue;
    host_slots_.push_back(graph.storages[s].index);
  }
  std::sort(host_slots_.begin(), host_slots_.end());
  host_slots_.erase(std::unique(host_slots_.begin(), host_slots_.end()), host_slots_.end());
}

}  // namespace laneway::adaptor
