// GraphReader: the decoding half of the graph codec (graph_codec.h has the format). Its memory is
// bounded by the bytes that are really there and by base/limits.h: tables grow with the bytes that
// were read, never by a count alone; arguments and copied texts have limits in total, because few
// bytes can name many of them. One object reads one graph. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lanes/graph/byte_reader.h"
#include "lanes/graph/graph.h"

namespace laneway::lanes {

class GraphReader {
 public:
  explicit GraphReader(std::span<const std::byte> bytes) : in_(bytes) {}

  // Error invalid_graph names the field, the value, the limit and the byte offset.
  Result<Graph> read();
  // Name, kind and numeric context alone.
  Result<Graph> read_head();

 private:
  void header(Graph& graph);
  void texts();
  Storage storage();
  Value value();
  Node node();
  Argument argument(uint32_t depth);
  ListArgument list(uint32_t depth);
  std::string text(const char* field);
  std::vector<ValueIndex> indices(const char* field, uint64_t limit);

  ByteReader in_;
  std::vector<std::string> texts_;
  uint64_t arguments_ = 0;   // so far, list elements included
  uint64_t text_bytes_ = 0;  // copied from the text table so far
};

}  // namespace laneway::lanes
