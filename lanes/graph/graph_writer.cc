#include "lanes/graph/graph_writer.h"

#include <bit>

#include "base/check.h"
#include "lanes/graph/graph_codec.h"

namespace laneway::lanes {

std::vector<std::byte> GraphWriter::write(const Graph& graph) {
  collect_texts(graph);
  header(graph);
  count(texts_.size());
  for (const std::string_view text : texts_) string(text);
  count(graph.storages.size());
  for (const Storage& s : graph.storages) storage(s);
  count(graph.values.size());
  for (const Value& v : graph.values) value(v);
  indices(graph.inputs);
  indices(graph.outputs);
  count(graph.nodes.size());
  for (const Node& n : graph.nodes) node(n);
  u32(graph.first_write);
  return std::move(bytes_);
}

void GraphWriter::collect_texts(const Graph& graph) {
  collect_text("");
  for (const Node& node : graph.nodes) {
    collect_text(node.op);
    collect_text(node.source);
    for (const NamedArgument& named : node.arguments) collect_text(named.name);
  }
}

void GraphWriter::collect_text(std::string_view text) {
  const auto [_, added] = text_index_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
  if (added) texts_.push_back(text);
}

void GraphWriter::header(const Graph& graph) {
  for (const char letter : {'L', 'W', 'G', 'R'}) u8(static_cast<uint8_t>(letter));
  u32(kGraphFormatVersion);
  string(graph.name);
  u8(static_cast<uint8_t>(graph.kind));
  u32(static_cast<uint32_t>(graph.context.threads));
  u8(graph.context.mkldnn);
  u8(graph.context.deterministic);
  u8(graph.context.deterministic_warn_only);
  u8(graph.context.flush_denormal);
  for (const Float32Precision precision : graph.context.float32) {
    u8(static_cast<uint8_t>(precision));
  }
  u8(static_cast<uint8_t>(graph.context.default_dtype));
}

void GraphWriter::storage(const Storage& storage) {
  u8(static_cast<uint8_t>(storage.kind));
  u32(storage.index);
  u64(storage.bytes);
}

void GraphWriter::value(const Value& value) {
  u8(static_cast<uint8_t>(value.kind));
  if (value.kind != ValueKind::tensor) return;
  LW_CHECK(value.sizes.size() == value.strides.size(), "a value needs as many strides as sizes");
  u8(static_cast<uint8_t>(value.dtype));
  u32(value.storage);
  i64(value.storage_offset);
  count(value.sizes.size());
  for (const int64_t size : value.sizes) i64(size);
  for (const int64_t stride : value.strides) i64(stride);
}

void GraphWriter::node(const Node& node) {
  text(node.op);
  text(node.source);
  count(node.arguments.size());
  for (const NamedArgument& named : node.arguments) {
    text(named.name);
    argument(named.argument);
  }
  count(node.results.size());
  for (const NodeResult& result : node.results) {
    u8(result.is_list);
    indices(result.values);
  }
  indices(node.writes);
}

void GraphWriter::argument(const Argument& argument) {
  u8(static_cast<uint8_t>(argument.content.index()));
  struct Payload {
    GraphWriter& out;
    void operator()(const NoneArgument&) const {}
    void operator()(const ValueArgument& value) const { out.u32(value.value); }
    void operator()(int64_t value) const { out.i64(value); }
    void operator()(double value) const { out.f64(value); }
    void operator()(bool value) const { out.u8(value); }
    void operator()(const std::string& value) const { out.string(value); }
    void operator()(const DTypeArgument& value) const { out.u8(static_cast<uint8_t>(value.dtype)); }
    void operator()(const MemoryFormatArgument& value) const {
      out.u8(static_cast<uint8_t>(value.format));
    }
    void operator()(const LayoutArgument&) const {}
    void operator()(const DeviceArgument&) const {}
    void operator()(const GeneratorArgument&) const {}
    void operator()(std::complex<double> value) const {
      out.f64(value.real());
      out.f64(value.imag());
    }
    void operator()(const ListArgument& list) const {
      out.count(list.elements.size());
      for (const Argument& element : list.elements) out.argument(element);
    }
  };
  std::visit(Payload{*this}, argument.content);
}

void GraphWriter::integer(uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void GraphWriter::f64(double value) { u64(std::bit_cast<uint64_t>(value)); }

void GraphWriter::count(size_t value) {
  LW_CHECK(value <= UINT32_MAX, "a count of a graph is over 32 bits");
  u32(static_cast<uint32_t>(value));
}

void GraphWriter::string(std::string_view text) {
  count(text.size());
  for (const char letter : text) bytes_.push_back(static_cast<std::byte>(letter));
}

void GraphWriter::indices(const std::vector<ValueIndex>& values) {
  count(values.size());
  for (const ValueIndex value : values) u32(value);
}

}  // namespace laneway::lanes
