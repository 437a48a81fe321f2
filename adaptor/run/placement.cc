#include "adaptor/run/placement.h"

#include <algorithm>
#include <iterator>

#include "base/disjoint_sets.h"
#include "base/limits.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {
namespace {

constexpr std::string_view kReadNumber = "aten::_local_scalar_dense";
// Ours (random_operators.h): what they read and write is in the CPU's memory.
constexpr std::string_view kReadState = "laneway::random_state";
constexpr std::string_view kRestoreState = "laneway::restore_random_state";

bool is_of_generator(const lanes::Node& node) {
  return node.op == kReadState || node.op == kRestoreState;
}

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
    "aten::_foreach_mul.List",
    "aten::_foreach_mul.Scalar",
    "aten::_foreach_mul.ScalarList",
    "aten::_foreach_mul.Tensor",
    "aten::_foreach_mul_.List",
    "aten::_foreach_mul_.Scalar",
    "aten::_foreach_mul_.ScalarList",
    "aten::_foreach_mul_.Tensor",
    "aten::_foreach_neg",
    "aten::_foreach_neg_",
    "aten::_foreach_sub.List",
    "aten::_foreach_sub.Scalar",
    "aten::_foreach_sub.ScalarList",
    "aten::_foreach_sub_.List",
    "aten::_foreach_sub_.Scalar",
    "aten::_foreach_sub_.ScalarList",
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
    "laneway::random_state",
    "laneway::restore_random_state",
};
static_assert(std::is_sorted(std::begin(kHostOperators), std::end(kHostOperators)));

// The learning rate of a fused optimizer: a number on the CPU to the device's operators too, which
// take it with all its bits. As a tensor of the device's it would have to be float32.
bool is_number(const lanes::Node& node, const lanes::NamedArgument& given) {
  return given.name == "lr" && node.op.ends_with(".tensor_lr");
}

// Calls visit(storage) for every storage of an argument that is a number, or is none.
template <class Visit>
void for_each_argument_storage(const lanes::Graph& graph, const lanes::Node& node, bool number,
                               const Visit& visit) {
  for (const lanes::NamedArgument& given : node.arguments) {
    if (is_number(node, given) != number) continue;
    lanes::for_each_value(given.argument, [&](lanes::ValueIndex value) {
      if (graph.values[value].kind == lanes::ValueKind::tensor) visit(graph.values[value].storage);
    });
  }
}

// Calls visit(storage) for every storage that must lie where the node runs, as often as it is
// touched.
template <class Visit>
void for_each_storage(const lanes::Graph& graph, const lanes::Node& node, const Visit& visit) {
  for_each_argument_storage(graph, node, false, visit);
  lanes::for_each_result_value(node, [&](lanes::ValueIndex value) {
    if (graph.values[value].kind == lanes::ValueKind::tensor) visit(graph.values[value].storage);
  });
}

// Storages of a single number: all their tensors have one element, and there is one. And those of a
// generator's state; a client may claim that something larger is one.
std::vector<bool> candidates(const lanes::Graph& graph,
                             const std::function<bool(uint32_t)>& slot_may_be) {
  std::vector<bool> may_be(graph.storages.size(), false);
  std::vector<bool> seen(graph.storages.size(), false);
  for (const lanes::Value& value : graph.values) {
    if (value.kind != lanes::ValueKind::tensor) continue;
    const lanes::Storage& storage = graph.storages[value.storage];
    const bool one = std::all_of(value.sizes.begin(), value.sizes.end(),
                                 [](int64_t size) { return size == 1; }) &&
                     storage.bytes == static_cast<uint64_t>(lanes::dtype_bytes(value.dtype));
    may_be[value.storage] = one && (may_be[value.storage] || !seen[value.storage]);
    seen[value.storage] = true;
  }
  for (const lanes::Node& node : graph.nodes) {
    if (!is_of_generator(node)) continue;
    for_each_storage(graph, node, [&](uint32_t storage) {
      may_be[storage] = graph.storages[storage].bytes <= limits::kRandomStateBytes;
    });
  }
  for (size_t s = 0; s < may_be.size(); ++s) {
    const lanes::Storage& storage = graph.storages[s];
    if (storage.kind == lanes::StorageKind::persistent && may_be[s]) {
      may_be[s] = slot_may_be(storage.index);
    }
  }
  return may_be;
}

}  // namespace

bool runs_on_host(std::string_view op) {
  return std::binary_search(std::begin(kHostOperators), std::end(kHostOperators), op);
}

Placement Placement::in_place() {
  Placement placement;
  placement.in_place_ = true;
  return placement;
}

Placement Placement::of(const lanes::Graph& graph,
                        const std::function<bool(uint32_t slot)>& slot_may_be_on_host) {
  Placement placement;
  std::vector<bool>& on_host = placement.storages_;
  on_host = candidates(graph, slot_may_be_on_host);
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
  const auto count = static_cast<uint32_t>(storages_.size());
  DisjointSets groups(count);  // of storages that nodes touch together
  std::vector<bool> read(count, false);
  for (const lanes::Node& node : graph.nodes) {
    uint32_t first = count;
    for_each_storage(graph, node, [&](uint32_t storage) {
      if (!storages_[storage]) return;
      if (first == count) first = storage;
      groups.join(storage, first);
      if (node.op == kReadNumber || is_of_generator(node)) read[storage] = true;
    });
  }
  for (const lanes::Node& node : graph.nodes) {
    for_each_argument_storage(graph, node, true, [&](uint32_t storage) { read[storage] = true; });
  }
  std::vector<bool> group_read(count, false);
  for (uint32_t s = 0; s < count; ++s) {
    if (read[s]) group_read[groups.find(s)] = true;
  }
  for (uint32_t s = 0; s < count; ++s) {
    if (!group_read[groups.find(s)]) storages_[s] = false;
  }
}

void Placement::place_nodes(const lanes::Graph& graph) {
  nodes_.assign(graph.nodes.size(), false);
  for (size_t index = 0; index < graph.nodes.size(); ++index) {
    for_each_storage(graph, graph.nodes[index],
                     [&](uint32_t storage) { nodes_[index] = storages_[storage]; });
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
