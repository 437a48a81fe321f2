#include "adaptor/checks/index_check.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <utility>

#include "adaptor/checks/paired_check.h"
#include "adaptor/operators/torch_tensors.h"
#include "lanes/graph/graph_text.h"

namespace laneway::adaptor {
namespace {

// Tables and losses that index with an input: a model has a few. Beyond the limit only the
// operator's own check is left, which comes later and says less.
constexpr uint32_t kMaxInputIndexChecks = 1'024;

// "0 to 9", "-4 to 3", "nothing".
std::string range_text(const IndexRange& range) {
  std::string text = "nothing";
  if (range.count > 0) {
    text = std::to_string(range.low) + " to " +
           std::to_string(range.low + static_cast<int64_t>(range.count) - 1);
  }
  return range.also ? text + ", or " + std::to_string(*range.also) : text;
}

// "[3, 0]": where the element `place` of a dense tensor's storage stands in it.
std::string place_text(const lanes::Value& tensor, int64_t place) {
  std::vector<size_t> order;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensor.strides[a] > tensor.strides[b]; });
  std::vector<int64_t> at(tensor.sizes.size(), 0);
  for (const size_t d : order) {
    if (tensor.sizes[d] == 1 || tensor.strides[d] == 0) continue;
    at[d] = place / tensor.strides[d];
    place %= tensor.strides[d];
  }
  std::string text;
  for (const int64_t position : at) text += (text.empty() ? "" : ", ") + std::to_string(position);
  return "[" + text + "]";
}

bool within(const IndexRange& inner, const IndexRange& outer) {
  if (inner.also && inner.also != outer.also) return false;
  if (inner.count == 0) return true;
  const int64_t inner_last = inner.low + static_cast<int64_t>(inner.count) - 1;
  const int64_t outer_last = outer.low + static_cast<int64_t>(outer.count) - 1;
  return outer.count > 0 && inner.low >= outer.low && inner_last <= outer_last;
}

// Whether the operator that made `use`'s value cannot make an integer that is out of range.
bool made_within(const lanes::Graph& graph, const IndexUse& use, const IndexTrace& trace) {
  const uint32_t maker = trace.maker(use.index);
  if (use.producer.empty() || maker >= graph.nodes.size() || trace.is_written(use.index)) {
    return false;
  }
  const lanes::Node& node = graph.nodes[maker];
  const bool gives = use.producer_result < node.results.size() &&
                     node.results[use.producer_result].values == std::vector{use.index};
  const auto count = produced_count(graph, node);
  return node.op == use.producer && gives && count && *count <= use.range.count;
}

}  // namespace

Result<IndexCheck> IndexCheck::make(const lanes::Graph& graph, const IndexLooks& looks) {
  IndexCheck check(graph);
  const IndexTrace trace(graph);
  SeenRanges seen;
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    Status added = check.add_node(node, trace, looks, seen);
    if (added) added = check_pairing(graph, node, trace);
    if (!added) return lanes::node_error(graph, node, added.error().message);
    if (is_ctc_loss(graph.nodes[node])) {
      check.ctc_.push_back(node);
      check.checked_nodes_.push_back(node);
    }
    const bool looked = !check.checked_nodes_.empty() && check.checked_nodes_.back() == node;
    if (looked && node >= graph.first_write) {
      return lanes::node_error(graph, node,
                               "its indices can only be looked at in the commit phase, in which "
                               "nothing may be refused; index before the parameters are written");
    }
  }
  return check;
}

Status IndexCheck::add_node(uint32_t node, const IndexTrace& trace, const IndexLooks& looks,
                            SeenRanges& seen) {
  Result<std::vector<IndexUse>> uses = index_uses(*graph_, node);
  if (!uses) return uses.error();
  for (const IndexUse& use : uses.value()) {
    auto source = trace.find(use.index);
    const bool from_input = source && add_input(std::move(*source), use);
    const bool trusted = use.operator_checks && looks.operators_check;
    if (!from_input && !trusted && !made_within(*graph_, use, trace)) {
      const auto before = seen.find(use.index);
      const bool looked_at =
          before != seen.end() && !trace.is_written(use.index) && within(before->second, use.range);
      if (!looked_at) {
        const bool stable = !looks.stable_storages.empty() &&
                            looks.stable_storages[graph_->values[use.index].storage];
        computed_.push_back({use, stable});
        if (checked_nodes_.empty() || checked_nodes_.back() != node) checked_nodes_.push_back(node);
      }
    }
    const auto [known, added] = seen.try_emplace(use.index, use.range);
    if (!added && within(use.range, known->second)) known->second = use.range;
  }
  return {};
}

bool IndexCheck::add_input(InputElements source, const IndexUse& use) {
  const bool known = std::any_of(inputs_.begin(), inputs_.end(), [&](const InputUse& before) {
    return before.source.input == source.input && before.source.elements == source.elements &&
           within(before.use.range, use.range);
  });
  if (known) return true;
  if (inputs_.size() >= kMaxInputIndexChecks) return false;
  inputs_.push_back({std::move(source), use});
  return true;
}

Status IndexCheck::check_inputs(std::span<const lanes::InputView> inputs) const {
  for (const InputUse& check : inputs_) {
    const void* base = inputs[check.source.input].data;
    const auto found = check.source.elements.first_outside(base, check.use.range);
    if (found) [[unlikely]] {
      return input_error(check, *found);
    }
  }
  return {};
}

Error IndexCheck::input_error(const InputUse& check, const IndexElements::Outside& found) const {
  const uint32_t position = check.source.input;
  const lanes::ValueIndex value = graph_->inputs[position];
  const lanes::Value& input = graph_->values[value];
  const bool whole = input.dtype == check.source.elements.dtype();
  return Error{
      ErrorCode::invalid_argument,
      "input " + std::to_string(position) + " (" + lanes::type_text(*graph_, value) +
          ") of graph '" + graph_->name + "' has " + std::to_string(found.value) + " at " +
          (whole ? place_text(input, found.place) : "element " + std::to_string(found.place)) +
          ", where " + graph_->nodes[check.use.node].op + " takes " + range_text(check.use.range) +
          user_line(check.use.node) + ": " + std::string(check.use.remedy)};
}

std::optional<uint32_t> IndexCheck::first_look_every_time() const {
  std::optional<uint32_t> first;
  const auto at = [&first](uint32_t node) { first = std::min(first.value_or(node), node); };
  for (const ComputedUse& use : computed_) {
    if (!use.stable) at(use.node);
  }
  for (const uint32_t node : ctc_) at(node);
  return first;
}

bool IndexCheck::looks_at_stable() const {
  return std::any_of(computed_.begin(), computed_.end(), [](auto& use) { return use.stable; });
}

Status IndexCheck::check_node(uint32_t node, const std::vector<c10::IValue>& values,
                              bool look_at_stable) const {
  const auto first =
      std::lower_bound(computed_.begin(), computed_.end(), node,
                       [](const IndexUse& use, uint32_t wanted) { return use.node < wanted; });
  for (auto use = first; use != computed_.end() && use->node == node; ++use) {
    if (use->stable && !look_at_stable) continue;
    const at::Tensor tensor = on_host(values[use->index].toTensor());
    const IndexElements all(graph_->values[use->index].dtype, 0, tensor.sizes().vec(),
                            tensor.strides().vec());
    if (const auto found = all.first_outside(tensor.const_data_ptr(), use->range)) {
      return Error{ErrorCode::invalid_argument,
                   "its '" + std::string(use->argument) + "' has " + std::to_string(found->value) +
                       ", it takes " + range_text(use->range) + ": " + std::string(use->remedy)};
    }
  }
  if (std::binary_search(ctc_.begin(), ctc_.end(), node)) {
    return check_ctc_labels(*graph_, node, values);
  }
  return {};
}

std::string IndexCheck::user_line(uint32_t node) const {
  const std::string& source = graph_->nodes[node].source;
  return source.empty() ? "" : " (" + lanes::printable(source) + ")";
}

}  // namespace laneway::adaptor
