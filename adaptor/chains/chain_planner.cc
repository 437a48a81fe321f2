#include "adaptor/chains/chain_planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "adaptor/chains/elementwise_node.h"
#include "adaptor/operators/element_count.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {
namespace {

using lanes::ValueIndex;

// Above so many elements torch splits elementwise work among threads (at::internal::GRAIN_SIZE);
// one thread would then be slower than eager's two.
constexpr int64_t kTorchGrain = 32'768;

// A chain that still grows.
struct OpenChain {
  std::vector<uint32_t> nodes;
  std::vector<ElementwiseNode> steps;
  std::set<uint32_t> reads, writes;  // storages
  std::set<uint32_t> made;           // storages that its nodes make
};

class Planner {
 public:
  explicit Planner(const lanes::Graph& graph)
      : graph_(graph), last_use_(graph.values.size(), 0), is_output_(graph.values.size(), false) {
    for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
      lanes::for_each_argument_value(graph.nodes[node],
                                     [&](ValueIndex value) { last_use_[value] = node; });
    }
    for (const ValueIndex output : graph.outputs) is_output_[output] = true;
  }

  std::vector<PlannedChain> plan() {
    for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
      const auto step = fusible(node);
      OpenChain* joined = nullptr;
      if (step) joined = &chain_for(*step);
      close_in_the_way_of(node, joined);
      if (joined == nullptr) continue;
      // Closing others moved nothing: open_ is a list of stable pieces.
      add(*joined, node, *step);
    }
    while (!open_.empty()) close(open_.begin());
    std::sort(done_.begin(), done_.end(),
              [](const PlannedChain& a, const PlannedChain& b) { return a.nodes < b.nodes; });
    return std::move(done_);
  }

 private:
  using Open = std::map<uint32_t, OpenChain>;  // by first node

  const lanes::Value& value(ValueIndex index) const { return graph_.values[index]; }

  bool same_layout(ValueIndex x, ValueIndex y) const {
    return value(x).sizes == value(y).sizes && value(x).strides == value(y).strides;
  }

  // Every element has a place of its own and there are no gaps.
  static bool is_dense(const lanes::Value& of) {
    std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride, size
    for (size_t i = 0; i < of.sizes.size(); ++i) {
      if (of.sizes[i] != 1) dimensions.emplace_back(of.strides[i], of.sizes[i]);
    }
    std::sort(dimensions.begin(), dimensions.end());
    int64_t expected = 1;
    for (const auto& [stride, size] : dimensions) {
      if (stride != expected) return false;
      expected *= size;
    }
    return true;
  }

  std::optional<ElementwiseNode> fusible(uint32_t node) const {
    const auto step = read_elementwise(graph_, graph_.nodes[node]);
    if (!step) return std::nullopt;
    if (step->op && !elementwise_kernel(*step->op)) return std::nullopt;
    const lanes::Value& first = value(step->a);
    const int64_t count = element_count(first.sizes);
    if (count == 0 || !is_dense(first)) return std::nullopt;
    if (graph_.context.threads > 1 && count >= kTorchGrain) return std::nullopt;
    for (const ValueIndex operand : {step->a, step->b, step->c, step->result}) {
      if (operand == lanes::kNoValue) continue;
      if (value(operand).dtype != lanes::DType::float32 || !same_layout(operand, step->a)) {
        return std::nullopt;
      }
    }
    return step;
  }

  // The open chain that knows one of the step's storages, or a new one. Several become one: none is
  // in another's way, or it would have been closed.
  OpenChain& chain_for(const ElementwiseNode& step) {
    OpenChain* found = nullptr;
    for (auto chain = open_.begin(); chain != open_.end();) {
      const auto next = std::next(chain);
      if (knows_operand(chain->second, step)) {
        if (found == nullptr) {
          found = &chain->second;
        } else {
          merge(*found, chain->second);
          open_.erase(chain);
        }
      }
      chain = next;
    }
    return found != nullptr ? *found : open_[kNewChain];
  }

  bool knows_operand(const OpenChain& chain, const ElementwiseNode& step) const {
    if (!same_layout(chain.steps.front().a, step.a)) return false;
    for (const ValueIndex operand : {step.a, step.b, step.c}) {
      if (operand == lanes::kNoValue) continue;
      const uint32_t storage = value(operand).storage;
      if (chain.writes.contains(storage) || chain.reads.contains(storage)) return true;
    }
    return false;
  }

  static void merge(OpenChain& into, const OpenChain& from) {
    std::vector<std::pair<uint32_t, ElementwiseNode>> all;
    for (const OpenChain* chain : {static_cast<const OpenChain*>(&into), &from}) {
      for (size_t i = 0; i < chain->nodes.size(); ++i) {
        all.emplace_back(chain->nodes[i], chain->steps[i]);
      }
    }
    std::sort(all.begin(), all.end(), [](auto& x, auto& y) { return x.first < y.first; });
    into.nodes.clear();
    into.steps.clear();
    for (const auto& [node, step] : all) {
      into.nodes.push_back(node);
      into.steps.push_back(step);
    }
    into.reads.insert(from.reads.begin(), from.reads.end());
    into.writes.insert(from.writes.begin(), from.writes.end());
    into.made.insert(from.made.begin(), from.made.end());
  }

  // A node outside of a chain that touches what the chain writes, or writes what it reads, ends it.
  void close_in_the_way_of(uint32_t node, const OpenChain* joined) {
    std::vector<ValueIndex> touched;
    lanes::for_each_argument_value(graph_.nodes[node],
                                   [&](ValueIndex value) { touched.push_back(value); });
    for (auto chain = open_.begin(); chain != open_.end();) {
      const bool conflicts =
          &chain->second != joined &&
          (std::any_of(touched.begin(), touched.end(),
                       [&](ValueIndex v) {
                         return is_tensor(v) && chain->second.writes.contains(value(v).storage);
                       }) ||
           std::any_of(
               graph_.nodes[node].writes.begin(), graph_.nodes[node].writes.end(),
               [&](ValueIndex v) { return chain->second.reads.contains(value(v).storage); }));
      const auto next = std::next(chain);
      if (conflicts) close(chain);
      chain = next;
    }
  }

  bool is_tensor(ValueIndex index) const { return value(index).kind == lanes::ValueKind::tensor; }

  void add(OpenChain& chain, uint32_t node, const ElementwiseNode& step) {
    for (const ValueIndex operand : {step.a, step.b, step.c}) {
      if (operand != lanes::kNoValue) chain.reads.insert(value(operand).storage);
    }
    const uint32_t result = value(step.result).storage;
    if (!graph_.nodes[node].writes.empty()) {
      chain.writes.insert(result);
    } else if (!chain.writes.contains(result)) {
      chain.writes.insert(result);
      chain.made.insert(result);
    }
    chain.nodes.push_back(node);
    chain.steps.push_back(step);
    if (auto fresh = open_.extract(kNewChain); !fresh.empty()) {
      fresh.key() = node;
      open_.insert(std::move(fresh));
    }
  }

  void close(Open::iterator at) {
    const OpenChain chain = std::move(at->second);
    open_.erase(at);
    if (!intermediates_stay_inside(chain) || overlaps_itself(chain)) return;
    emit(chain);
  }

  // What the chain makes is used by nobody else: it never becomes a tensor.
  bool intermediates_stay_inside(const OpenChain& chain) const {
    for (const ElementwiseNode& step : chain.steps) {
      if (!chain.made.contains(value(step.result).storage)) continue;
      if (is_output_[step.result] || last_use_[step.result] > chain.nodes.back()) return false;
    }
    for (uint32_t node = chain.nodes.front(); node <= chain.nodes.back(); ++node) {
      if (std::binary_search(chain.nodes.begin(), chain.nodes.end(), node)) continue;
      bool uses = false;
      lanes::for_each_argument_value(graph_.nodes[node], [&](ValueIndex v) {
        uses = uses || (is_tensor(v) && chain.made.contains(value(v).storage));
      });
      if (uses) return false;
    }
    return true;
  }

  // Two operands on one storage must be the same elements.
  bool overlaps_itself(const OpenChain& chain) const {
    std::map<uint32_t, int64_t> offsets;
    for (const ElementwiseNode& step : chain.steps) {
      for (const ValueIndex operand : {step.a, step.b, step.c}) {
        if (operand == lanes::kNoValue) continue;
        const auto [place, added] =
            offsets.try_emplace(value(operand).storage, value(operand).storage_offset);
        if (!added && place->second != value(operand).storage_offset) return true;
      }
    }
    return false;
  }

  void emit(const OpenChain& chain) {
    std::vector<ValueIndex> tensors;
    std::map<uint32_t, ChainOperand> places;  // by storage
    uint32_t temporaries = 0;
    const auto place = [&](ValueIndex v) {
      if (v == lanes::kNoValue) return ChainOperand{};
      const uint32_t storage = value(v).storage;
      const auto [entry, added] = places.try_emplace(storage);
      if (added) {
        entry->second.temporary = chain.made.contains(storage);
        entry->second.index =
            entry->second.temporary ? temporaries++ : static_cast<uint32_t>(tensors.size());
        if (!entry->second.temporary) tensors.push_back(v);
      }
      return entry->second;
    };
    std::vector<ChainStep> steps;
    for (const ElementwiseNode& node : chain.steps) {
      ChainStep step;
      step.is_sqrt = !node.op.has_value();
      if (node.op) step.kernel = *elementwise_kernel(*node.op);
      step.a = place(node.a);
      step.b = node.b == lanes::kNoValue ? step.a : place(node.b);
      step.c = node.c == lanes::kNoValue ? step.a : place(node.c);
      step.out = place(node.result);
      step.s = node.s;
      step.t = node.t;
      steps.push_back(step);
    }
    if (temporaries > ElementwiseChain::kMaxTemporaries) return;
    std::vector<ElementwiseChain::Result> results;
    for (const ElementwiseNode& node : chain.steps) {
      const ChainOperand& at = places.at(value(node.result).storage);
      const bool used_later =
          is_output_[node.result] || last_use_[node.result] > chain.nodes.back();
      if (used_later && !at.temporary) results.push_back({node.result, at.index});
    }
    const lanes::Value& first = value(chain.steps.front().a);
    done_.push_back({chain.nodes, ElementwiseChain(first.sizes, first.strides, std::move(tensors),
                                                   std::move(steps), std::move(results))});
  }

  static constexpr uint32_t kNewChain = UINT32_MAX;

  const lanes::Graph& graph_;
  std::vector<uint32_t> last_use_;
  std::vector<bool> is_output_;
  Open open_;
  std::vector<PlannedChain> done_;
};

}  // namespace

std::vector<PlannedChain> plan_chains(const lanes::Graph& graph) { return Planner(graph).plan(); }

}  // namespace laneway::adaptor
