// DeviceProgram: what of a graph is the same for every job that has it: decoded, checked and
// resolved for its device. DeviceGraph::program gives it, and DeviceJob::make_graph and make_job
// take it for an equal graph, which then is not decoded and resolved again. Holds nothing of any
// job, and may outlive all of them. Immutable; any thread.
#pragma once

#include <memory>

namespace laneway::adaptor {

class DeviceProgram {
 public:
  virtual ~DeviceProgram() = default;
};

using ProgramHandle = std::shared_ptr<const DeviceProgram>;

}  // namespace laneway::adaptor
