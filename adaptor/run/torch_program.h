// TorchProgram: the DeviceProgram of LibTorch: a resolved graph, and the prediction of its memory.
// Plain data.
#pragma once

#include <memory>

#include "adaptor/device/device_program.h"
#include "adaptor/run/resolved_graph.h"
#include "base/bytes.h"
#include "lanes/graph/graph_sizes.h"

namespace laneway::adaptor {

struct TorchProgram final : DeviceProgram {
  std::shared_ptr<const ResolvedGraph> resolved;
  lanes::GraphMemory memory;  // transfers included
  Bytes probe_height;         // see probe_height_of
};

}  // namespace laneway::adaptor
