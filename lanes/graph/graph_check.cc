#include "lanes/graph/graph_check.h"

#include "lanes/graph/graph_rules.h"
#include "lanes/graph/graph_text.h"

namespace laneway::lanes {

Status check_graph(const Graph& graph) {
  for (const TableRule rule : kTableRules) {
    if (Status status = rule(graph); !status) return status;
  }
  const GraphFacts facts = graph_facts(graph);
  for (const FlowRule rule : kFlowRules) {
    if (Status status = rule(graph, facts); !status) return status;
  }
  return {};
}

Status check_against_image(const Graph& graph, std::span<const ImageSlot> slots) {
  for (const Storage& storage : graph.storages) {
    if (storage.kind != StorageKind::persistent) continue;
    const std::string slot = "image slot " + std::to_string(storage.index);
    if (storage.index >= slots.size()) {
      return graph_error(graph, slot + " is not in the job's image, which has " +
                                    std::to_string(slots.size()) +
                                    " slots; offer the graph with the image it was captured with");
    }
    if (storage.bytes != slots[storage.index].bytes) {
      return graph_error(graph, slot + " (" + printable(slots[storage.index].name) + ") has " +
                                    std::to_string(slots[storage.index].bytes) +
                                    " bytes in the image and " + std::to_string(storage.bytes) +
                                    " in the graph; capture the graph again with this model");
    }
  }
  return {};
}

}  // namespace laneway::lanes
