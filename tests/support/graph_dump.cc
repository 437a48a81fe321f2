#include "tests/support/graph_dump.h"

#include <charconv>

#include "lanes/graph/graph_facts.h"
#include "lanes/graph/graph_text.h"

namespace laneway::lanes {
namespace {

const char* kind_name(GraphKind kind) {
  switch (kind) {
    case GraphKind::train: return "train";
    case GraphKind::evaluate: return "evaluate";
    case GraphKind::inference: return "inference";
  }
  return "?";
}

const char* format_name(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::contiguous: return "contiguous";
    case MemoryFormat::preserve: return "preserve";
    case MemoryFormat::channels_last: return "channels_last";
    case MemoryFormat::channels_last_3d: return "channels_last_3d";
  }
  return "?";
}

// The shortest decimal that reads back as the same double; never mistaken for an integer.
std::string real_text(double value) {
  char digits[32];
  const auto [end, _] = std::to_chars(digits, digits + sizeof digits, value);
  std::string text(digits, end);
  const bool plain = text.find_first_not_of("-0123456789") == std::string::npos;
  return plain ? text + ".0" : text;
}

std::string name_of(ValueIndex value) {
  return value == kNoValue ? "_" : "%" + std::to_string(value);
}

bool is_contiguous(const Value& value) {
  int64_t expected = 1;
  for (size_t d = value.sizes.size(); d-- > 0;) {
    if (d >= value.strides.size()) return false;
    if (value.sizes[d] != 1 && value.strides[d] != expected) return false;
    if (value.sizes[d] > 0 && __builtin_mul_overflow(expected, value.sizes[d], &expected)) {
      return false;
    }
  }
  return true;
}

// "%7: float32[4, 3] @6+2 strides [1, 4]".
std::string declaration(const Graph& graph, ValueIndex value) {
  std::string text = name_of(value);
  if (value == kNoValue) return text;
  text += ": " + type_text(graph, value);
  if (value >= graph.values.size() || graph.values[value].kind != ValueKind::tensor) return text;
  const Value& tensor = graph.values[value];
  text += " @" + std::to_string(tensor.storage);
  if (tensor.storage_offset != 0) text += "+" + std::to_string(tensor.storage_offset);
  if (is_contiguous(tensor)) return text;
  text += " strides [";
  for (size_t d = 0; d < tensor.strides.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(tensor.strides[d]);
  }
  return text + "]";
}

std::string argument_text(const Argument& argument) {
  struct Text {
    std::string operator()(const NoneArgument&) const { return "none"; }
    std::string operator()(const ValueArgument& value) const { return name_of(value.value); }
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return real_text(value); }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(const std::string& value) const { return "'" + printable(value) + "'"; }
    std::string operator()(const DTypeArgument& value) const { return dtype_name(value.dtype); }
    std::string operator()(const MemoryFormatArgument& value) const {
      return format_name(value.format);
    }
    std::string operator()(const LayoutArgument&) const { return "strided"; }
    std::string operator()(const DeviceArgument&) const { return "device"; }
    std::string operator()(const GeneratorArgument&) const { return "generator"; }
    std::string operator()(std::complex<double> value) const {
      return "(" + real_text(value.real()) + ", " + real_text(value.imag()) + "i)";
    }
    std::string operator()(const ListArgument& list) const {
      std::string text = "[";
      for (size_t i = 0; i < list.elements.size(); ++i) {
        text += (i == 0 ? "" : ", ") + argument_text(list.elements[i]);
      }
      return text + "]";
    }
  };
  return std::visit(Text{}, argument.content);
}

std::string node_text(const Graph& graph, const Node& node) {
  std::string text;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const NodeResult& result = node.results[i];
    text += i == 0 ? "" : ", ";
    if (result.is_list) text += "[";
    for (size_t j = 0; j < result.values.size(); ++j) {
      text += (j == 0 ? "" : ", ") + declaration(graph, result.values[j]);
    }
    if (result.is_list) text += "]";
  }
  text += (text.empty() ? "" : " = ") + printable(node.op) + "(";
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const NamedArgument& named = node.arguments[i];
    text += i == 0 ? "" : ", ";
    if (!named.name.empty()) text += printable(named.name) + "=";
    text += argument_text(named.argument);
  }
  text += ")";
  for (size_t i = 0; i < node.writes.size(); ++i) {
    text += (i == 0 ? "  writes " : ", ") + name_of(node.writes[i]);
  }
  if (!node.source.empty()) text += "  # " + printable(node.source);
  return text;
}

std::string context_text(const NumericContext& context) {
  std::string text = "context threads " + std::to_string(context.threads);
  if (context.mkldnn) text += ", mkldnn";
  if (context.deterministic) text += ", deterministic";
  if (context.deterministic_warn_only) text += ", deterministic_warn_only";
  if (context.flush_denormal) text += ", flush_denormal";
  text += ", float32 precision ";
  for (const Float32Precision precision : context.float32) {
    text += std::to_string(static_cast<int>(precision));
  }
  return text + ", default " + dtype_name(context.default_dtype) + "\n";
}

}  // namespace

std::string dump_graph(const Graph& graph) {
  std::string text = "graph '" + printable(graph.name) + "' " + kind_name(graph.kind) + "\n" +
                     context_text(graph.context);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    text += "input " + std::to_string(i) + " " + declaration(graph, graph.inputs[i]) + "\n";
  }
  const GraphFacts facts = graph_facts(graph);
  for (ValueIndex value = 0; value < graph.values.size(); ++value) {
    if (facts.defined_by[value] != kFromImage) continue;
    const Storage& slot = *storage_of(graph, value);
    text += "slot " + std::to_string(slot.index) + " " + declaration(graph, value) + " " +
            std::to_string(slot.bytes) + " bytes\n";
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (i == graph.first_write) text += "--- commit phase: the image is written from here on\n";
    text += std::to_string(i) + ": " + node_text(graph, graph.nodes[i]) + "\n";
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    text += "output " + std::to_string(i) + " " + name_of(graph.outputs[i]) + "\n";
  }
  return text;
}

}  // namespace laneway::lanes
