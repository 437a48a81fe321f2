#include "tests/support/graph_values.h"

#include <algorithm>
#include <functional>
#include <string>
#include <variant>

#include "lanes/graph/graph_facts.h"

namespace laneway::testing {
namespace {

using lanes::Argument;
using lanes::Graph;
using lanes::ListArgument;
using lanes::Node;
using lanes::ValueIndex;

uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9ULL;
  return z ^ (z >> 32);
}

bool is_tensor(const Graph& graph, ValueIndex value) {
  return graph.values[value].kind == lanes::ValueKind::tensor;
}

class Computer {
 public:
  explicit Computer(const Graph& graph)
      : graph_(graph),
        facts_(lanes::graph_facts(graph)),
        bytes_(graph.storages.size()),
        numbers_(graph.values.size()) {
    for (uint32_t i = 0; i < bytes_.size(); ++i) {
      const lanes::Storage& storage = graph.storages[i];
      bytes_[i] = mixed(static_cast<uint64_t>(storage.kind), storage.index + 1);
    }
    for (uint32_t i = 0; i < graph.inputs.size(); ++i) numbers_[graph.inputs[i]] = mixed(77, i);
  }

  void run(uint32_t index) {
    const Node& node = graph_.nodes[index];
    const size_t elements = node.op.find("_foreach_") == std::string::npos ? 0 : length(node);
    if (elements == 0) {
      const uint64_t hash = of_call(node, 0, /*by_element=*/false);
      uint64_t place = 0;
      lanes::for_each_result_value(node,
                                   [&](ValueIndex v) { make(index, v, mixed(hash, ++place)); });
      for (const ValueIndex value : node.writes) write(value, mixed(hash, ++place));
      return;
    }
    for (size_t element = 0; element < elements; ++element) of_element(index, element);
  }

  GraphValues values() const {
    GraphValues found;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (graph_.storages[i].kind == lanes::StorageKind::persistent)
        found.slots[graph_.storages[i].index] = bytes_[i];
    }
    for (const ValueIndex output : graph_.outputs) found.outputs.push_back(read(output));
    return found;
  }

 private:
  static size_t length(const Node& node) {
    size_t most = 0;
    for (const auto& given : node.arguments) {
      if (const auto* list = std::get_if<ListArgument>(&given.argument.content))
        most = std::max(most, list->elements.size());
    }
    return most;
  }

  // All reads of an element's call are before its writes; one call after the other.
  void of_element(uint32_t index, size_t element) {
    const Node& node = graph_.nodes[index];
    const uint64_t hash = of_call(node, element, /*by_element=*/true);
    for (const lanes::NodeResult& result : node.results)
      make(index, result.values[element], mixed(hash, 1));
    for (const auto& given : node.arguments) {
      const auto* list = std::get_if<ListArgument>(&given.argument.content);
      if (list == nullptr) continue;
      const auto* value = std::get_if<lanes::ValueArgument>(&list->elements[element].content);
      if (value == nullptr) continue;
      const auto& writes = node.writes;
      if (std::find(writes.begin(), writes.end(), value->value) != writes.end())
        write(value->value, mixed(hash, 2));
    }
  }

  uint64_t of_call(const Node& node, size_t element, bool by_element) const {
    uint64_t hash = std::hash<std::string>()(node.op);
    for (const auto& given : node.arguments) {
      const auto* list = std::get_if<ListArgument>(&given.argument.content);
      hash = mixed(hash, by_element && list != nullptr ? of_argument(list->elements[element])
                                                       : of_argument(given.argument));
    }
    return hash;
  }

  uint64_t of_argument(const Argument& argument) const {
    if (const auto* value = std::get_if<lanes::ValueArgument>(&argument.content))
      return read(value->value);
    if (const auto* real = std::get_if<double>(&argument.content))
      return std::hash<double>()(*real);
    if (const auto* whole = std::get_if<int64_t>(&argument.content))
      return std::hash<int64_t>()(*whole);
    uint64_t hash = argument.content.index();
    if (const auto* list = std::get_if<ListArgument>(&argument.content)) {
      for (const Argument& element : list->elements) hash = mixed(hash, of_argument(element));
    }
    return hash;
  }

  uint64_t read(ValueIndex value) const {
    if (value == lanes::kNoValue) return 5;
    const lanes::Value& what = graph_.values[value];
    if (!is_tensor(graph_, value)) return numbers_[value];
    uint64_t hash = mixed(bytes_[what.storage], static_cast<uint64_t>(what.storage_offset));
    for (const int64_t size : what.sizes) hash = mixed(hash, static_cast<uint64_t>(size));
    return hash;
  }

  void make(uint32_t node, ValueIndex value, uint64_t hash) {
    if (!is_tensor(graph_, value)) {
      numbers_[value] = hash;
    } else if (facts_.made_by[graph_.values[value].storage] == node) {
      bytes_[graph_.values[value].storage] = hash;
    }
  }

  void write(ValueIndex value, uint64_t hash) {
    uint64_t& bytes = bytes_[graph_.values[value].storage];
    bytes = mixed(bytes, hash);
  }

  const Graph& graph_;
  const lanes::GraphFacts facts_;
  std::vector<uint64_t> bytes_;    // by storage
  std::vector<uint64_t> numbers_;  // by value
};

}  // namespace

GraphValues computed(const Graph& graph) {
  Computer computer(graph);
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) computer.run(node);
  return computer.values();
}

}  // namespace laneway::testing
