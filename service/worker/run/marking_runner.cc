#include "service/worker/run/marking_runner.h"

namespace laneway::service {

lanes::NodeOutcome MarkingRunner::run_node(size_t index) {
  arena_.mark();
  return ForwardingRunner::run_node(index);
}

Status MarkingRunner::finish(std::span<const lanes::OutputView> outputs) {
  arena_.mark();
  return ForwardingRunner::finish(outputs);
}

}  // namespace laneway::service
