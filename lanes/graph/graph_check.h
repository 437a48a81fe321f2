// Validation of a graph that needs no operator schemas: after it, every index is in range, every
// value is defined once and before its use, every view lies inside its storage, all writes are
// declared, and sizes can be summed without overflow; graph_sizes and the adaptor rely on that. It
// runs in the order of the rules in graph_rules.h and stops at the first that is broken.
// Thread-safe (no state); linear in the size of the graph.
#pragma once

#include <span>

#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::lanes {

// Error invalid_graph names the graph, the node with its operator and user line (or the value,
// storage, input), the value, the limit and what to do.
Status check_graph(const Graph& graph);

// Whether the persistent storages of a checked graph are slots of this image, with the slots'
// bytes. Error invalid_graph.
Status check_against_image(const Graph& graph, std::span<const ImageSlot> slots);

}  // namespace laneway::lanes
