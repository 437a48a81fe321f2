#include "lanes/graph/early_form.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/disjoint_sets.h"
#include "lanes/graph/graph_facts.h"
#include "lanes/graph/graph_sizes.h"
#include "lanes/graph/graph_text.h"
#include "lanes/graph/list_split.h"

namespace laneway::lanes {
namespace {

// An update moves when its end frees at least this part of the peak. Running statistics of a batch
// norm and step counters of an optimizer free nothing, and moved they would begin the commit phase
// with the first layer.
constexpr int64_t kLeastPart = 512;
constexpr uint32_t kNone = UINT32_MAX;

// Nodes from the first write on that are joined by what they make or write: they keep their order,
// and no node of another group cares when they run.
struct Group {
  std::vector<uint32_t> nodes;  // ascending
  uint32_t behind = kNone;      // the last node before the first write that it must follow
  Bytes frees;                  // of what nodes before the first write made
  bool moves = true;
};

class EarlyFormMaker {
 public:
  EarlyFormMaker(const Graph& graph, const std::vector<bool>& stays, int64_t alignment)
      : graph_(graph),
        stays_(stays),
        alignment_(alignment),
        facts_(graph_facts(graph)),
        lifetimes_(graph_lifetimes(graph)),
        late_(predict_memory(graph, lifetimes_, alignment)),
        first_(graph.first_write),
        last_touch_(graph.storages.size(), kNone),
        last_write_(graph.storages.size(), kNone) {}

  Result<EarlyForm> make();

 private:
  void look_at_head();
  void find_groups();
  void settle(Group& group);
  bool gives_output(const Group& group) const;
  // The nodes' order with those groups that move.
  std::vector<uint32_t> order() const;
  Graph ordered(const std::vector<uint32_t>& order) const;
  // Whether a group that moved stands higher than the late form ever does; it moves no more.
  bool takes_back(const std::vector<uint32_t>& order, const GraphMemory& memory);
  Error refusal() const;

  template <class Visit>
  void for_each_storage(const Node& node, const Visit& visit) const {
    const auto of_value = [&](ValueIndex value) {
      if (graph_.values[value].kind == ValueKind::tensor) visit(graph_.values[value].storage);
    };
    for_each_argument_value(node, of_value);
    for_each_result_value(node, of_value);
  }

  const Graph& graph_;
  const std::vector<bool>& stays_;
  const int64_t alignment_;
  const GraphFacts facts_;
  const GraphLifetimes lifetimes_;
  const GraphMemory late_;
  const uint32_t first_;  // the first write
  // By storage: the last node before the first write that reads or writes it, and writes it.
  std::vector<uint32_t> last_touch_, last_write_;
  std::vector<Group> groups_;
};

void EarlyFormMaker::look_at_head() {
  for (uint32_t node = 0; node < first_; ++node) {
    for_each_storage(graph_.nodes[node], [&](uint32_t storage) { last_touch_[storage] = node; });
    for (const ValueIndex value : graph_.nodes[node].writes)
      last_write_[graph_.values[value].storage] = node;
  }
}

void EarlyFormMaker::find_groups() {
  const auto count = static_cast<uint32_t>(graph_.nodes.size());
  DisjointSets joined(count);
  // By storage: whether a node from the first write on makes or writes it.
  std::vector<bool> changes(graph_.storages.size(), false);
  for (uint32_t node = first_; node < count; ++node) {
    for (const ValueIndex value : graph_.nodes[node].writes)
      changes[graph_.values[value].storage] = true;
    for_each_result_value(graph_.nodes[node], [&](ValueIndex value) {
      if (graph_.values[value].kind != ValueKind::tensor) return;
      const uint32_t storage = graph_.values[value].storage;
      if (facts_.made_by[storage] == node) changes[storage] = true;
    });
  }
  std::vector<uint32_t> met(graph_.storages.size(), kNone);
  for (uint32_t node = first_; node < count; ++node) {
    for_each_storage(graph_.nodes[node], [&](uint32_t storage) {
      if (!changes[storage]) return;
      if (met[storage] != kNone) joined.join(node, met[storage]);
      met[storage] = node;
    });
    for_each_argument_value(graph_.nodes[node], [&](ValueIndex value) {
      const uint32_t maker = facts_.defined_by[value];
      if (maker >= first_ && maker < count) joined.join(node, maker);
    });
  }
  std::vector<uint32_t> group_of(count, kNone);
  for (uint32_t node = first_; node < count; ++node) {
    uint32_t& group = group_of[joined.find(node)];
    if (group == kNone) {
      group = static_cast<uint32_t>(groups_.size());
      groups_.emplace_back();
    }
    groups_[group].nodes.push_back(node);
  }
  for (Group& group : groups_) settle(group);
}

// Where it can stand, what it frees, and whether it moves by that.
void EarlyFormMaker::settle(Group& group) {
  const auto follow = [&](uint32_t node) {
    if (node == kNone || node >= first_) return;
    if (group.behind == kNone || node > group.behind) group.behind = node;
  };
  for (const uint32_t index : group.nodes) {
    const Node& node = graph_.nodes[index];
    for_each_argument_value(node, [&](ValueIndex value) {
      const uint32_t maker = facts_.defined_by[value];
      if (maker < first_) follow(maker);
    });
    for_each_storage(node, [&](uint32_t storage) { follow(last_write_[storage]); });
    for (const ValueIndex value : node.writes) follow(last_touch_[graph_.values[value].storage]);
    for (const uint32_t storage : lifetimes_.storages_dying.at(index)) {
      if (facts_.made_by[storage] >= first_) continue;
      const auto bytes = static_cast<int64_t>(graph_.storages[storage].bytes);
      group.frees += Bytes(bytes).aligned_up(alignment_);
    }
    group.moves = group.moves && !stays_[index];
  }
  group.moves = group.moves && (group.behind == kNone || group.behind + 1 < first_) &&
                group.frees.count() > 0 && group.frees.count() >= late_.peak.count() / kLeastPart &&
                !gives_output(group);
}

// What it makes for the client stays alive to the end: early it would lie beside all the rest.
bool EarlyFormMaker::gives_output(const Group& group) const {
  return std::any_of(graph_.outputs.begin(), graph_.outputs.end(), [&](ValueIndex value) {
    const Storage* storage = storage_of(graph_, value);
    if (storage == nullptr || storage->kind != StorageKind::ephemeral) return false;
    const uint32_t maker = facts_.made_by[graph_.values[value].storage];
    return std::binary_search(group.nodes.begin(), group.nodes.end(), maker);
  });
}

std::vector<uint32_t> EarlyFormMaker::order() const {
  const auto count = static_cast<uint32_t>(graph_.nodes.size());
  std::vector<bool> moved(count, false);
  std::vector<std::vector<const Group*>> after(size_t{first_} + 1);  // [0]: before all nodes
  for (const Group& group : groups_) {
    if (!group.moves) continue;
    after[group.behind == kNone ? 0 : group.behind + 1].push_back(&group);
    for (const uint32_t node : group.nodes) moved[node] = true;
  }
  std::vector<uint32_t> order;
  order.reserve(count);
  for (uint32_t node = 0; node <= first_; ++node) {
    for (const Group* group : after[node])
      order.insert(order.end(), group->nodes.begin(), group->nodes.end());
    if (node < first_) order.push_back(node);
  }
  for (uint32_t node = first_; node < count; ++node) {
    if (!moved[node]) order.push_back(node);
  }
  return order;
}

Graph EarlyFormMaker::ordered(const std::vector<uint32_t>& order) const {
  Graph early = graph_;
  for (size_t place = 0; place < order.size(); ++place)
    early.nodes[place] = graph_.nodes[order[place]];
  early.first_write = first_persistent_write(early);
  return early;
}

bool EarlyFormMaker::takes_back(const std::vector<uint32_t>& order, const GraphMemory& memory) {
  std::vector<Bytes> live(order.size());  // by the late form's node
  for (size_t place = 0; place < order.size(); ++place) live[order[place]] = memory.live[place];
  bool any = false;
  for (Group& group : groups_) {
    const bool high = group.moves && std::any_of(group.nodes.begin(), group.nodes.end(),
                                                 [&](uint32_t n) { return live[n] > late_.peak; });
    if (high) group.moves = false;
    any = any || high;
  }
  return any;
}

Error EarlyFormMaker::refusal() const {
  const auto unsupported = [&](const std::string& why) {
    return Error{ErrorCode::unsupported, graph_error(graph_, why).message};
  };
  if (first_ == graph_.nodes.size()) return unsupported("it writes no parameter");
  const Group* earliest = nullptr;
  bool draws = false;
  for (const Group& group : groups_) {
    if (group.frees.count() == 0 || group.frees.count() < late_.peak.count() / kLeastPart) continue;
    draws = draws || std::any_of(group.nodes.begin(), group.nodes.end(),
                                 [&](uint32_t node) { return stays_[node]; });
    const bool earlier = earliest == nullptr || group.behind < earliest->behind;
    if (group.behind != kNone && earlier) earliest = &group;
  }
  if (earliest == nullptr) return unsupported("its updates free no memory of the iteration");
  if (draws) return unsupported("its updates draw random numbers, whose order is kept");
  if (earliest->behind + 1 < first_) {
    return unsupported("its updates need more memory than they free where they could stand");
  }
  return Error{ErrorCode::unsupported,
               node_error(graph_, earliest->behind, "every update waits for it").message};
}

Result<EarlyForm> EarlyFormMaker::make() {
  look_at_head();
  find_groups();
  for (;;) {
    const bool moves =
        std::any_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.moves; });
    if (!moves) return refusal();
    const std::vector<uint32_t> placed = order();
    Graph early = ordered(placed);
    const GraphMemory memory = predict_memory(early, graph_lifetimes(early), alignment_);
    if (takes_back(placed, memory)) continue;
    LW_CHECK(memory.peak <= late_.peak, "a group that moves leaves nothing alive");
    const auto moved = std::count_if(groups_.begin(), groups_.end(),
                                     [](const Group& group) { return group.moves; });
    return EarlyForm{std::move(early), late_.peak, memory.peak, static_cast<uint32_t>(moved)};
  }
}

}  // namespace

Result<EarlyForm> early_form(const Graph& graph, const std::vector<bool>& stays,
                             int64_t alignment) {
  LW_CHECK(stays.size() == graph.nodes.size(), "whether it stays, of each node");
  const SplitLists split = split_lists(graph);
  std::vector<bool> split_stays;
  for (const uint32_t was : split.node_was) split_stays.push_back(stays[was]);
  return EarlyFormMaker(split.graph, split_stays, alignment).make();
}

}  // namespace laneway::lanes
