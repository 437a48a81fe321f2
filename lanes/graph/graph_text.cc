#include "lanes/graph/graph_text.h"

namespace laneway::lanes {

std::string printable(std::string_view text) {
  std::string shown(text);
  for (char& letter : shown) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = '?';
  }
  return shown;
}

std::string type_text(const Graph& graph, ValueIndex value) {
  if (value >= graph.values.size()) {
    return "value " + std::to_string(value) + " of " + std::to_string(graph.values.size());
  }
  const Value& v = graph.values[value];
  if (v.kind != ValueKind::tensor) return value_kind_name(v.kind);
  std::string text = std::string(dtype_name(v.dtype)) + "[";
  for (size_t i = 0; i < v.sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(v.sizes[i]);
  }
  return text + "]";
}

std::string value_text(const Graph& graph, ValueIndex value) {
  if (value >= graph.values.size()) return type_text(graph, value);
  return "value " + std::to_string(value) + " " + type_text(graph, value);
}

Error graph_error(const Graph& graph, const std::string& what) {
  return {ErrorCode::invalid_graph, "graph '" + printable(graph.name) + "': " + what};
}

Error node_error(const Graph& graph, size_t node, const std::string& what) {
  const Node& n = graph.nodes[node];
  const std::string source = n.source.empty() ? "" : " (" + printable(n.source) + ")";
  return {ErrorCode::invalid_graph, "graph '" + printable(graph.name) + "', node " +
                                        std::to_string(node) + " " + printable(n.op) + source +
                                        ": " + what};
}

}  // namespace laneway::lanes
