#include "adaptor/checks/index_trace.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {
namespace {

// Operators whose result has the integers of their first argument, in the same places.
constexpr std::array<std::string_view, 5> kCopies = {"aten::_to_copy", "aten::alias_copy",
                                                     "aten::clone", "aten::detach_copy",
                                                     "aten::lift_fresh_copy"};

constexpr size_t kLongestTrace = 32;  // copies of copies; what is longer is not followed

// Whether every integer of `from` is one of `to`.
bool keeps_integers(lanes::DType from, lanes::DType to) {
  if (from == to) return true;
  if (!is_index_dtype(from) || !is_index_dtype(to)) return false;
  return lanes::dtype_bytes(from) < lanes::dtype_bytes(to);
}

// The copied and the copy; nothing when `node` is none.
struct Copy {
  const lanes::Value* from = nullptr;
  const lanes::Value* to = nullptr;
};
std::optional<Copy> as_copy(const lanes::Graph& graph, const lanes::Node& node) {
  if (std::find(kCopies.begin(), kCopies.end(), node.op) == kCopies.end()) return std::nullopt;
  if (node.arguments.empty() || !node.arguments[0].name.empty() || node.results.size() != 1 ||
      node.results[0].is_list || node.results[0].values[0] == lanes::kNoValue) {
    return std::nullopt;
  }
  const auto* from = std::get_if<lanes::ValueArgument>(&node.arguments[0].argument.content);
  if (from == nullptr) return std::nullopt;
  const Copy copy{&graph.values[from->value], &graph.values[node.results[0].values[0]]};
  const bool tensors =
      copy.from->kind == lanes::ValueKind::tensor && copy.to->kind == lanes::ValueKind::tensor;
  if (!tensors || !keeps_integers(copy.from->dtype, copy.to->dtype)) return std::nullopt;
  return copy.from->sizes == copy.to->sizes ? std::optional(copy) : std::nullopt;
}

bool lies_inside(const lanes::Value& tensor, const lanes::Storage& storage) {
  if (tensor.storage_offset < 0) return false;
  uint64_t elements = static_cast<uint64_t>(tensor.storage_offset) + 1;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] == 0) return true;
    elements +=
        static_cast<uint64_t>(tensor.sizes[d] - 1) * static_cast<uint64_t>(tensor.strides[d]);
  }
  return elements * static_cast<uint64_t>(lanes::dtype_bytes(tensor.dtype)) <= storage.bytes;
}

}  // namespace

IndexElements elements_of(const lanes::Value& tensor) {
  return {tensor.dtype, tensor.storage_offset, tensor.sizes, tensor.strides};
}

IndexTrace::IndexTrace(const lanes::Graph& graph)
    : graph_(graph),
      written_(graph.storages.size(), false),
      made_by_(lanes::graph_facts(graph).made_by) {
  for (const lanes::Node& node : graph.nodes) {
    for (const lanes::ValueIndex value : node.writes) written_[graph.values[value].storage] = true;
  }
}

std::optional<InputElements> IndexTrace::find(lanes::ValueIndex value) const {
  lanes::Value region = graph_.values[value];
  for (size_t step = 0; step < kLongestTrace; ++step) {
    const lanes::Storage& storage = graph_.storages[region.storage];
    if (!is_index_dtype(region.dtype) || written_[region.storage]) return std::nullopt;
    if (storage.kind == lanes::StorageKind::input) {
      if (!lies_inside(region, storage)) return std::nullopt;
      return InputElements{storage.index, elements_of(region)};
    }
    if (storage.kind != lanes::StorageKind::ephemeral) return std::nullopt;
    const auto copy = as_copy(graph_, graph_.nodes[made_by_[region.storage]]);
    if (!copy || copy->to->storage != region.storage || copy->to->dtype != region.dtype) {
      return std::nullopt;
    }
    if (copy->from->strides == copy->to->strides) {
      // The same elements of what was copied.
      region.storage_offset += copy->from->storage_offset - copy->to->storage_offset;
      region.storage = copy->from->storage;
      region.dtype = copy->from->dtype;
    } else if (elements_of(region) == elements_of(*copy->to)) {
      region = *copy->from;  // all of them, in whatever order
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace laneway::adaptor
