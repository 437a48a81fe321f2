#include "lanes/graph/graph_codec.h"

#include "base/limits.h"
#include "lanes/graph/graph_reader.h"
#include "lanes/graph/graph_writer.h"

namespace laneway::lanes {

std::vector<std::byte> encode_graph(const Graph& graph) { return GraphWriter().write(graph); }

Result<Graph> decode_graph(std::span<const std::byte> bytes) {
  if (bytes.size() > limits::kMaxGraphBytes) {
    return Error{ErrorCode::invalid_graph,
                 "graph has " + std::to_string(bytes.size()) + " bytes, the limit is " +
                     std::to_string(limits::kMaxGraphBytes) + "; split the step into smaller ones"};
  }
  return GraphReader(bytes).read();
}

}  // namespace laneway::lanes
