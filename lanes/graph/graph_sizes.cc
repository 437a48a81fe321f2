#include "lanes/graph/graph_sizes.h"

#include <algorithm>

#include "base/check.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::lanes {
namespace {

constexpr uint32_t kNever = UINT32_MAX;

// Pairs that become a PerNodeLists.
struct NodeItems {
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> items;
  void add(uint32_t node, uint32_t item) {
    nodes.push_back(node);
    items.push_back(item);
  }
  PerNodeLists lists(uint32_t node_count) const { return {node_count, nodes, items}; }
};

// Per value: the last node that names it (the one that makes it, when none uses it); kNever for
// what does not die: outputs, persistent tensors that no node makes, unused inputs.
std::vector<uint32_t> last_uses(const Graph& graph, const GraphFacts& facts) {
  std::vector<uint32_t> last(graph.values.size(), kNever);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const auto use = [&](ValueIndex value) { last[value] = i; };
    for_each_argument_value(graph.nodes[i], use);
    for_each_result_value(graph.nodes[i], use);
  }
  for (ValueIndex value = 0; value < last.size(); ++value) {
    if (facts.defined_by[value] == kFromImage) last[value] = kNever;
  }
  for (const ValueIndex output : graph.outputs) last[output] = kNever;
  return last;
}

}  // namespace

PerNodeLists::PerNodeLists(uint32_t node_count, std::span<const uint32_t> nodes,
                           std::span<const uint32_t> items) {
  starts_.assign(size_t{node_count} + 1, 0);
  for (const uint32_t node : nodes) ++starts_[node + 1];
  for (uint32_t i = 0; i < node_count; ++i) starts_[i + 1] += starts_[i];
  std::vector<uint32_t> next(starts_.begin(), starts_.end() - 1);
  items_.resize(items.size());
  for (size_t k = 0; k < items.size(); ++k) items_[next[nodes[k]]++] = items[k];
}

std::vector<uint32_t> first_use_order(const Graph& graph, uint32_t slot_count) {
  std::vector<uint32_t> order;
  std::vector<bool> placed(slot_count, false);
  order.reserve(slot_count);
  const auto place = [&](uint32_t slot) {
    LW_CHECK(slot < slot_count, "slot " + std::to_string(slot) + " of an image with " +
                                    std::to_string(slot_count) + ": check_against_image first");
    if (placed[slot]) return;
    placed[slot] = true;
    order.push_back(slot);
  };
  const auto use = [&](ValueIndex value) {
    const Storage* storage = storage_of(graph, value);
    if (storage != nullptr && storage->kind == StorageKind::persistent) place(storage->index);
  };
  for (const Node& node : graph.nodes) for_each_argument_value(node, use);
  for (const ValueIndex output : graph.outputs) use(output);
  for (uint32_t slot = 0; slot < slot_count; ++slot) place(slot);
  return order;
}

GraphLifetimes graph_lifetimes(const Graph& graph) {
  const GraphFacts facts = graph_facts(graph);
  const std::vector<uint32_t> last = last_uses(graph, facts);
  const auto node_count = static_cast<uint32_t>(graph.nodes.size());
  const auto is_ephemeral = [&](ValueIndex value) {
    const Storage* storage = storage_of(graph, value);
    return storage != nullptr && storage->kind == StorageKind::ephemeral;
  };

  NodeItems dying_values;
  // How many values still hold each storage: it dies with the last of them.
  std::vector<uint32_t> holders(graph.storages.size(), 0);
  for (ValueIndex value = 0; value < graph.values.size(); ++value) {
    if (is_ephemeral(value)) ++holders[graph.values[value].storage];
    if (last[value] != kNever) dying_values.add(last[value], value);
  }

  NodeItems made;
  for (uint32_t i = 0; i < node_count; ++i) {
    std::vector<uint32_t> of_node;
    for_each_result_value(graph.nodes[i], [&](ValueIndex value) {
      if (!is_ephemeral(value)) return;
      const uint32_t storage = graph.values[value].storage;
      if (facts.made_by[storage] != i) return;
      if (std::find(of_node.begin(), of_node.end(), storage) == of_node.end()) {
        of_node.push_back(storage);
        made.add(i, storage);
      }
    });
  }

  GraphLifetimes lifetimes;
  lifetimes.values_dying = dying_values.lists(node_count);
  lifetimes.storages_made = made.lists(node_count);
  NodeItems dying_storages;
  for (uint32_t i = 0; i < node_count; ++i) {
    for (const ValueIndex value : lifetimes.values_dying.at(i)) {
      if (!is_ephemeral(value)) continue;
      const uint32_t storage = graph.values[value].storage;
      if (--holders[storage] == 0) dying_storages.add(i, storage);
    }
  }
  lifetimes.storages_dying = dying_storages.lists(node_count);
  return lifetimes;
}

GraphMemory predict_memory(const Graph& graph, const GraphLifetimes& lifetimes, int64_t alignment) {
  GraphMemory memory;
  const auto node_count = static_cast<uint32_t>(graph.nodes.size());
  std::vector<uint32_t> allocation(graph.storages.size(), kNever);
  std::vector<bool> alive(graph.storages.size(), false);
  const auto rounded = [&](uint32_t storage) {
    return Bytes(static_cast<int64_t>(graph.storages[storage].bytes)).aligned_up(alignment);
  };
  Bytes live;
  const auto free_storage = [&](uint32_t storage) {
    if (!alive[storage]) return;
    alive[storage] = false;
    live -= rounded(storage);
    memory.tape.frees.push_back(allocation[storage]);
  };
  const auto mark = [&] {
    memory.marks.push_back({static_cast<uint32_t>(memory.tape.allocations.size()),
                            static_cast<uint32_t>(memory.tape.frees.size())});
  };
  for (uint32_t i = 0; i < node_count; ++i) {
    mark();
    for (const uint32_t storage : lifetimes.storages_made.at(i)) {
      if (graph.storages[storage].bytes == 0) continue;
      allocation[storage] = static_cast<uint32_t>(memory.tape.allocations.size());
      alive[storage] = true;
      live += rounded(storage);
      memory.tape.allocations.push_back(
          {graph.storages[storage].bytes, static_cast<uint32_t>(memory.tape.frees.size())});
    }
    memory.live.push_back(live);
    for (const uint32_t storage : lifetimes.storages_dying.at(i)) free_storage(storage);
  }
  mark();
  memory.reach.assign(size_t{node_count} + 1, live);
  for (uint32_t i = node_count; i-- > 0;) {
    memory.reach[i] = std::max(memory.live[i], memory.reach[i + 1]);
  }
  memory.peak = memory.reach[0];
  for (const ValueIndex output : graph.outputs) {
    const Storage* storage = storage_of(graph, output);
    if (storage != nullptr) free_storage(graph.values[output].storage);
  }
  return memory;
}

}  // namespace laneway::lanes
