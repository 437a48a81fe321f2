#include "tests/fuzz/graph_exercise.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/check.h"
#include "lanes/graph/graph_check.h"
#include "lanes/graph/graph_codec.h"
#include "lanes/graph/graph_facts.h"
#include "lanes/graph/graph_sizes.h"
#include "tests/support/graph_dump.h"

namespace laneway::testing {
namespace {

using lanes::Graph;
using lanes::StorageKind;

// Written again, an accepted graph has one form, and reading that form changes nothing. Compared as
// bytes: a NaN argument is not equal to itself.
void require_one_canonical_form(const Graph& graph) {
  const std::vector<std::byte> canonical = lanes::encode_graph(graph);
  const Result<Graph> again = lanes::decode_graph(canonical);
  LW_CHECK(again.ok(), "own encoding refused: " + again.error().message);
  LW_CHECK(lanes::encode_graph(again.value()) == canonical, "two canonical forms of one graph");
  LW_CHECK(!lanes::dump_graph(graph).empty());
}

// Every ephemeral storage that has bytes is allocated once and freed once, and the curve never
// leaves [0, peak].
void require_sound_memory(const Graph& graph) {
  const lanes::GraphLifetimes lifetimes = lanes::graph_lifetimes(graph);
  const lanes::GraphMemory memory = lanes::predict_memory(graph, lifetimes, 64);
  const auto allocated = std::count_if(
      graph.storages.begin(), graph.storages.end(),
      [](const lanes::Storage& s) { return s.kind == StorageKind::ephemeral && s.bytes > 0; });
  LW_CHECK(memory.tape.allocations.size() == static_cast<size_t>(allocated), "allocations missing");
  LW_CHECK(std::set<uint32_t>(memory.tape.frees.begin(), memory.tape.frees.end()).size() ==
               memory.tape.allocations.size(),
           "an allocation is not freed once");
  LW_CHECK(memory.live.size() == graph.nodes.size());
  for (size_t i = 0; i < memory.live.size(); ++i) {
    LW_CHECK(Bytes() <= memory.live[i] && memory.live[i] <= memory.reach[i]);
    LW_CHECK(memory.reach[i + 1] <= memory.reach[i] && memory.reach[i] <= memory.peak);
  }
}

void require_sound_image(const Graph& graph) {
  uint32_t slots = 0;
  for (const lanes::Storage& storage : graph.storages) {
    if (storage.kind == StorageKind::persistent) slots = std::max(slots, storage.index + 1);
  }
  std::vector<lanes::ImageSlot> image(slots);
  for (const lanes::Storage& storage : graph.storages) {
    if (storage.kind == StorageKind::persistent) image[storage.index].bytes = storage.bytes;
  }
  LW_CHECK(lanes::check_against_image(graph, image).ok());
  LW_CHECK(lanes::first_use_order(graph, slots).size() == slots);
  if (slots == 0) return;
  image.pop_back();
  LW_CHECK(!lanes::check_against_image(graph, image).ok(), "a slot beyond the image was accepted");
}

}  // namespace

GraphVerdict exercise_graph(std::span<const std::byte> bytes) {
  const Result<Graph> decoded = lanes::decode_graph(bytes);
  if (!decoded.ok()) {
    LW_CHECK(decoded.error().code == ErrorCode::invalid_graph);
    return GraphVerdict::malformed;
  }
  const Graph& graph = decoded.value();
  require_one_canonical_form(graph);
  if (const Status status = lanes::check_graph(graph); !status.ok()) {
    LW_CHECK(status.error().code == ErrorCode::invalid_graph);
    return GraphVerdict::refused;
  }
  LW_CHECK(graph.first_write == lanes::first_persistent_write(graph));
  require_sound_memory(graph);
  require_sound_image(graph);
  return GraphVerdict::valid;
}

}  // namespace laneway::testing
