#include "adaptor/checks/stable_storages.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {
namespace {

// Memory as it was found.
bool leaves_unset(std::string_view op) {
  return op.find("::empty") != std::string_view::npos ||
         op.find("::new_empty") != std::string_view::npos;
}

// What is taken for stable until something shows that it is not.
class Guess {
 public:
  explicit Guess(const lanes::Graph& graph)
      : graph_(graph), storages_(graph.storages.size(), true), numbers_(graph.values.size(), true) {
    for (size_t s = 0; s < storages_.size(); ++s) {
      if (graph.storages[s].kind == lanes::StorageKind::input) storages_[s] = false;
    }
    for (const lanes::ValueIndex input : graph.inputs) numbers_[input] = false;
  }

  bool holds(lanes::ValueIndex value) const {
    const lanes::Value& known = graph_.values[value];
    return known.kind == lanes::ValueKind::tensor ? storages_[known.storage] : numbers_[value];
  }
  // Whether that changed anything.
  bool drop(lanes::ValueIndex value) {
    if (!holds(value)) return false;
    const lanes::Value& known = graph_.values[value];
    if (known.kind == lanes::ValueKind::tensor) {
      storages_[known.storage] = false;
    } else {
      numbers_[value] = false;
    }
    return true;
  }
  std::vector<bool> take() { return std::move(storages_); }

 private:
  const lanes::Graph& graph_;
  std::vector<bool> storages_;
  std::vector<bool> numbers_;  // by value
};

}  // namespace

std::vector<bool> stable_storages(const lanes::Graph& graph, const std::vector<bool>& draws) {
  Guess guess(graph);
  // A slot that is written holds something else in the next iteration.
  for (const lanes::Node& node : graph.nodes) {
    for (const lanes::ValueIndex written : node.writes) {
      const lanes::Storage* storage = lanes::storage_of(graph, written);
      if (storage != nullptr && storage->kind == lanes::StorageKind::persistent)
        guess.drop(written);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t index = 0; index < graph.nodes.size(); ++index) {
      const lanes::Node& node = graph.nodes[index];
      bool same = !draws[index] && !leaves_unset(node.op);
      lanes::for_each_argument_value(node, [&](auto value) { same = same && guess.holds(value); });
      if (same) continue;
      // A view is unstable with what it is a view of, and so is whatever is written.
      lanes::for_each_result_value(node, [&](auto value) { changed |= guess.drop(value); });
      for (const lanes::ValueIndex written : node.writes) changed |= guess.drop(written);
    }
  }
  return guess.take();
}

}  // namespace laneway::adaptor
