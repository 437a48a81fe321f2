// The layout of service/transport/block_layout.h for what messages describe: the block of one
// iteration of a graph. Pure function.
#pragma once

#include <vector>

#include "service/transport/block_layout.h"
#include "service/wire/graph_info.h"

namespace laneway::wire {

inline service::BlockLayout block_layout(const GraphInfo& graph) {
  std::vector<service::BlockItem> inputs, outputs;
  for (const InputInfo& input : graph.inputs) {
    inputs.push_back({input.kind == ValueKind::tensor, input.bytes});
  }
  for (const OutputInfo& output : graph.outputs) {
    outputs.push_back({output.kind == ValueKind::tensor, output.bytes});
  }
  return service::block_layout(inputs, outputs);
}

}  // namespace laneway::wire
