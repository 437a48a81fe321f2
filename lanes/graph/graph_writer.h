// GraphWriter: the encoding half of the graph codec (graph_codec.h has the format). The text table
// is filled in the order in which texts are first named, so equal graphs give equal bytes. One
// object writes one graph. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::lanes {

class GraphWriter {
 public:
  std::vector<std::byte> write(const Graph& graph);

 private:
  void collect_texts(const Graph& graph);
  void collect_text(std::string_view text);

  void header(const Graph& graph);
  void storage(const Storage& storage);
  void value(const Value& value);
  void node(const Node& node);
  void argument(const Argument& argument);

  void integer(uint64_t value, size_t size);
  void u8(uint8_t value) { integer(value, 1); }
  void u32(uint32_t value) { integer(value, 4); }
  void u64(uint64_t value) { integer(value, 8); }
  void i64(int64_t value) { u64(static_cast<uint64_t>(value)); }
  void f64(double value);
  void count(size_t value);
  void string(std::string_view text);
  void text(const std::string& text) { u32(text_index_.at(text)); }
  void indices(const std::vector<ValueIndex>& values);

  std::vector<std::byte> bytes_;
  std::vector<std::string_view> texts_;  // of the graph, which outlives write()
  std::unordered_map<std::string_view, uint32_t> text_index_;
};

}  // namespace laneway::lanes
