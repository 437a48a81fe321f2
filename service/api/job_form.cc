#include "service/api/job_form.h"

#include "base/room_error.h"

namespace laneway::service {
namespace {

Error invalid(std::string message) {
  return Error{ErrorCode::invalid_argument, std::move(message)};
}

}  // namespace

Status check_inputs(const wire::GraphInfo& graph, std::span<const laneway_input> inputs) {
  if (inputs.size() != graph.inputs.size()) {
    return invalid("graph '" + graph.name + "' takes " + std::to_string(graph.inputs.size()) +
                   " inputs, got " + std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (graph.inputs[i].kind != wire::ValueKind::tensor) continue;
    const uint64_t wanted = graph.inputs[i].bytes;
    if (inputs[i].bytes == wanted && (wanted == 0 || inputs[i].data != nullptr)) continue;
    const uint64_t given = inputs[i].data == nullptr ? 0 : inputs[i].bytes;
    return invalid("input " + std::to_string(i) + " of graph '" + graph.name + "' has " +
                   std::to_string(given) + " bytes, the graph was captured with " +
                   std::to_string(wanted) + "; capture again for this shape and dtype");
  }
  return {};
}

Status check_outputs(const wire::GraphInfo& graph, std::span<const laneway_output> outputs) {
  if (outputs.size() != graph.outputs.size()) {
    return wrong_room("graph '" + graph.name + "'", "outputs",
                      {.needed = graph.outputs.size(), .given = outputs.size()});
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint64_t wanted = graph.outputs[i].bytes;
    if (outputs[i].bytes == wanted && (wanted == 0 || outputs[i].data != nullptr)) continue;
    const uint64_t given = outputs[i].data == nullptr ? 0 : outputs[i].bytes;
    return wrong_room("output " + std::to_string(i) + " of graph '" + graph.name + "'", "bytes",
                      {.needed = wanted, .given = given});
  }
  return {};
}

Status check_slots(const std::string& job, std::span<const ImageSlot> slots,
                   std::span<const laneway_slot_copy> copies) {
  for (const laneway_slot_copy& copy : copies) {
    if (copy.slot >= slots.size()) {
      return invalid("job '" + job + "' has " + std::to_string(slots.size()) +
                     " slots; there is none numbered " + std::to_string(copy.slot));
    }
    const ImageSlot& slot = slots[copy.slot];
    if (copy.bytes != slot.bytes || (copy.bytes > 0 && copy.data == nullptr)) {
      return invalid("slot '" + slot.name + "' has " + std::to_string(slot.bytes) + " bytes, " +
                     std::to_string(copy.data == nullptr ? 0 : copy.bytes) + " were given");
    }
  }
  return {};
}

Error no_such_graph(const std::string& job, uint32_t number) {
  return invalid("job '" + job + "' has no graph numbered " + std::to_string(number) +
                 ": it was never added, or was dropped");
}

}  // namespace laneway::service
