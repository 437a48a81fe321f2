#include "lanes/graph/list_split.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "lanes/graph/graph_facts.h"

namespace laneway::lanes {
namespace {

bool is_over_lists(const Node& node) {
  // These take a tensor that has a number for each element.
  if (node.op.ends_with("addcdiv_.Tensor") || node.op.ends_with("addcmul_.Tensor")) return false;
  return node.op.starts_with("aten::_foreach_") || node.op.starts_with("aten::_fused_");
}

// The length of all lists among its arguments and results but the empty ones; nothing where they
// differ.
std::optional<size_t> length_of_lists(const Node& node) {
  size_t length = 0;
  bool differ = false;
  const auto see = [&](size_t size) {
    differ = differ || (size != 0 && length != 0 && size != length);
    length = std::max(length, size);
  };
  for (const NamedArgument& given : node.arguments) {
    if (const auto* list = std::get_if<ListArgument>(&given.argument.content))
      see(list->elements.size());
  }
  for (const NodeResult& result : node.results) {
    if (!result.is_list) return {};
    see(result.values.size());
  }
  return differ ? std::nullopt : std::optional(length);
}

// One element's call.
Node element_of(const Node& node, size_t element) {
  Node one = node;
  for (NamedArgument& given : one.arguments) {
    auto* list = std::get_if<ListArgument>(&given.argument.content);
    if (list != nullptr && !list->elements.empty())
      list->elements = {Argument(list->elements[element])};
  }
  for (NodeResult& result : one.results) {
    if (!result.values.empty()) result.values = {ValueIndex{result.values[element]}};
  }
  std::erase_if(one.writes, [&](ValueIndex written) {
    bool among = false;
    for_each_argument_value(one, [&](ValueIndex value) { among = among || value == written; });
    return !among;
  });
  return one;
}

// Whether no call touches a storage that another one writes, and each write is of one call.
bool are_apart(const Graph& graph, const Node& node, const std::vector<Node>& calls) {
  std::map<uint32_t, size_t> writer;  // by storage
  size_t writes = 0;
  for (size_t call = 0; call < calls.size(); ++call) {
    writes += calls[call].writes.size();
    for (const ValueIndex value : calls[call].writes) {
      const auto [at, added] = writer.try_emplace(graph.values[value].storage, call);
      if (!added && at->second != call) return false;
    }
  }
  bool apart = writes == node.writes.size();
  for (size_t call = 0; call < calls.size(); ++call) {
    for_each_argument_value(calls[call], [&](ValueIndex value) {
      if (graph.values[value].kind != ValueKind::tensor) return;
      const auto found = writer.find(graph.values[value].storage);
      apart = apart && (found == writer.end() || found->second == call);
    });
  }
  return apart;
}

// Empty where it stays whole.
std::vector<Node> split(const Graph& graph, const Node& node) {
  if (!is_over_lists(node)) return {};
  const std::optional<size_t> length = length_of_lists(node);
  if (!length || *length < 2) return {};
  std::vector<Node> calls;
  for (size_t element = 0; element < *length; ++element) calls.push_back(element_of(node, element));
  return are_apart(graph, node, calls) ? calls : std::vector<Node>();
}

}  // namespace

SplitLists split_lists(const Graph& graph) {
  SplitLists into{graph, {}};
  into.graph.nodes.clear();
  for (uint32_t index = 0; index < graph.nodes.size(); ++index) {
    std::vector<Node> calls;
    if (index >= graph.first_write) calls = split(graph, graph.nodes[index]);
    if (calls.empty()) calls.push_back(graph.nodes[index]);
    into.node_was.insert(into.node_was.end(), calls.size(), index);
    std::move(calls.begin(), calls.end(), std::back_inserter(into.graph.nodes));
  }
  into.graph.first_write = first_persistent_write(into.graph);
  return into;
}

}  // namespace laneway::lanes
