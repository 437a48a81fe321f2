// placement_dump: what of a captured graph the adaptor leaves to the CPU on another device, for the
// Python tests, which see what captures give.
//
//     placement_dump GRAPH
//
// Reads the graph's binary form from the file GRAPH and writes two lines of numbers: the slots that
// stay on the CPU, and the nodes that run there. The job's first graph decides, so any slot may.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "adaptor/run/placement.h"
#include "lanes/graph/graph_check.h"
#include "lanes/graph/graph_codec.h"

int main(int count, char** words) {
  using namespace laneway;
  std::ifstream file(count == 2 ? words[1] : "", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto graph = lanes::decode_graph(std::as_bytes(std::span(bytes)));
  if (!graph.ok()) {
    std::fprintf(stderr, "placement_dump: %s\n", graph.error().message.c_str());
    return 1;
  }
  if (const Status valid = lanes::check_graph(graph.value()); !valid) {
    std::fprintf(stderr, "placement_dump: %s\n", valid.error().message.c_str());
    return 1;
  }
  const auto placement = adaptor::Placement::of(graph.value(), [](uint32_t) { return true; });
  for (const uint32_t slot : placement.host_slots()) std::printf("%u ", slot);
  std::printf("\n");
  for (size_t node = 0; node < graph.value().nodes.size(); ++node) {
    if (placement.node_on_host(node)) std::printf("%zu ", node);
  }
  std::printf("\n");
  return 0;
}
