#include "tests/fuzz/graph_mutator.h"

#include <algorithm>
#include <array>
#include <utility>

namespace laneway::testing {

using lanes::Graph;
using lanes::Node;
using lanes::Value;

uint64_t GraphMutator::interesting() {
  constexpr std::array<uint64_t, 16> kNumbers = {
      0,       1,          2,          4,          255,        256,        4'096,      65'536,
      1 << 20, 0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 46, 1ULL << 62, 1ULL << 63, UINT64_MAX,
  };
  return kNumbers[random_.below(kNumbers.size())] + random_.below(3) - 1;
}

uint32_t GraphMutator::index(size_t size) {
  if (random_.chance(0.9) && size > 0) return static_cast<uint32_t>(random_.below(size));
  return random_.chance(0.5) ? static_cast<uint32_t>(size) : static_cast<uint32_t>(interesting());
}

std::vector<std::byte> GraphMutator::mutate(std::vector<std::byte> bytes) {
  for (uint64_t i = random_.below(4) + 1; i-- > 0;) change(bytes);
  return bytes;
}

void GraphMutator::change(std::vector<std::byte>& bytes) {
  if (bytes.empty()) {
    bytes.push_back(static_cast<std::byte>(random_.next()));
    return;
  }
  const size_t at = random_.below(bytes.size());
  const size_t length = std::min<size_t>(random_.below(16) + 1, bytes.size() - at);
  const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto to = from + static_cast<std::ptrdiff_t>(length);
  switch (random_.below(6)) {
    case 0: bytes[at] ^= static_cast<std::byte>(1u << random_.below(8)); return;
    case 1: bytes[at] = static_cast<std::byte>(interesting()); return;
    case 2: {
      const uint64_t number = interesting();
      for (size_t i = 0; i < std::min<size_t>(length, 8); ++i) {
        bytes[at + i] = static_cast<std::byte>(number >> (8 * i));
      }
      return;
    }
    case 3: bytes.erase(from, to); return;
    case 4: {
      const std::vector<std::byte> piece(from, to);
      const auto place = static_cast<std::ptrdiff_t>(random_.below(bytes.size() + 1));
      bytes.insert(bytes.begin() + place, piece.begin(), piece.end());
      return;
    }
    default: {
      const size_t other = random_.below(bytes.size() - length + 1);
      std::copy_n(std::vector<std::byte>(from, to).begin(), length,
                  bytes.begin() + static_cast<std::ptrdiff_t>(other));
    }
  }
}

Graph GraphMutator::mutate(Graph graph) {
  for (uint64_t i = random_.below(3) + 1; i-- > 0;) change(graph);
  return graph;
}

void GraphMutator::change(Graph& graph) {
  switch (random_.below(9)) {
    case 0: graph.first_write = index(graph.nodes.size() + 1); return;
    case 1:
      if (!graph.inputs.empty())
        graph.inputs[random_.below(graph.inputs.size())] = index(graph.values.size());
      return;
    case 2: graph.outputs.push_back(index(graph.values.size())); return;
    case 3:
      if (graph.storages.empty()) return;
      {
        lanes::Storage& storage = graph.storages[random_.below(graph.storages.size())];
        storage.bytes = random_.chance(0.5) ? interesting() : storage.bytes + random_.below(9) - 4;
        if (random_.chance(0.3)) storage.kind = static_cast<lanes::StorageKind>(random_.below(3));
        if (random_.chance(0.3)) storage.index = index(4);
      }
      return;
    case 4:
    case 5:
      if (!graph.values.empty()) change_value(graph.values[random_.below(graph.values.size())]);
      return;
    case 6:
      if (graph.nodes.size() > 1) {
        std::swap(graph.nodes[random_.below(graph.nodes.size())],
                  graph.nodes[random_.below(graph.nodes.size())]);
      }
      return;
    default:
      if (!graph.nodes.empty()) change_node(graph, graph.nodes[random_.below(graph.nodes.size())]);
  }
}

void GraphMutator::change_value(Value& value) {
  if (value.kind != lanes::ValueKind::tensor) {
    value.kind = static_cast<lanes::ValueKind>(random_.below(3) + 1);
    return;
  }
  const size_t dimensions = value.sizes.size();
  switch (random_.below(5)) {
    case 0: value.storage = index(12); return;
    case 1: value.storage_offset = static_cast<int64_t>(interesting()); return;
    case 2: value.dtype = static_cast<lanes::DType>(random_.below(lanes::kDTypeCount)); return;
    case 3:
      if (dimensions > 0)
        value.sizes[random_.below(dimensions)] = static_cast<int64_t>(interesting());
      return;
    default:
      if (dimensions > 0)
        value.strides[random_.below(dimensions)] = static_cast<int64_t>(interesting());
  }
}

void GraphMutator::change_node(Graph& graph, Node& node) {
  const uint32_t value = index(graph.values.size());
  switch (random_.below(6)) {
    case 0: node.writes.push_back(value); return;
    case 1: node.writes.clear(); return;
    case 2:
      node.op = random_.chance(0.5) ? "scalar::pow" : "aten::x." + std::to_string(value);
      return;
    case 3:
      if (!node.results.empty()) node.results[random_.below(node.results.size())].values = {value};
      return;
    case 4:
      node.arguments.insert(node.arguments.begin(), {"", {lanes::ValueArgument{value}}});
      return;
    default: {
      lanes::Argument argument{lanes::ValueArgument{value}};
      for (uint64_t i = random_.below(6); i-- > 0;) argument = {lanes::ListArgument{{argument}}};
      node.arguments.push_back({random_.chance(0.5) ? "" : "named", argument});
    }
  }
}

}  // namespace laneway::testing
