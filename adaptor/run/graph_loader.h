// load_program: makes a program of a graph: all work that is done once per graph, when its first
// job loads it. Further jobs with an equal graph bind what it resolved (program_binding.h).
#pragma once

#include <memory>

#include "adaptor/run/graph_program.h"
#include "base/result.h"

namespace laneway::adaptor {

// Requires: `graph` has passed graph_check against the image's slots, `placement` is the graph's,
// and the thread holds a TorchUse. invalid_graph names node, operator and user line.
Result<std::unique_ptr<const GraphProgram>> load_program(lanes::Graph graph, Placement placement,
                                                         const JobParts& job);

}  // namespace laneway::adaptor
