#include "service/api/job_form.h"

#include <cstddef>

namespace laneway::service {
namespace {

// Before `shared` was appended.
constexpr uint32_t kFirstJobOptions = 64;
static_assert(offsetof(laneway_job_options, shared) == kFirstJobOptions);

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
    return invalid("input " + std::to_string(i) + " of graph '" + graph.name + "' has " +
                   std::to_string(inputs[i].bytes) + " bytes, the graph was captured with " +
                   std::to_string(wanted) + "; capture again for this shape and dtype");
  }
  return {};
}

Status check_outputs(const wire::GraphInfo& graph, std::span<const laneway_output> outputs) {
  if (outputs.size() != graph.outputs.size()) {
    return invalid("graph '" + graph.name + "' has " + std::to_string(graph.outputs.size()) +
                   " outputs, room was given for " + std::to_string(outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint64_t wanted = graph.outputs[i].bytes;
    if (outputs[i].bytes == wanted && (wanted == 0 || outputs[i].data != nullptr)) continue;
    return invalid("output " + std::to_string(i) + " of graph '" + graph.name + "' has " +
                   std::to_string(wanted) + " bytes, room was given for " +
                   std::to_string(outputs[i].bytes));
  }
  return {};
}

Status check_slots(const std::string& job, std::span<const wire::SlotSpec> slots,
                   std::span<const laneway_slot_copy> copies) {
  for (const laneway_slot_copy& copy : copies) {
    if (copy.slot >= slots.size()) {
      return invalid("job '" + job + "' has " + std::to_string(slots.size()) +
                     " slots; there is none numbered " + std::to_string(copy.slot));
    }
    const wire::SlotSpec& slot = slots[copy.slot];
    if (copy.bytes != slot.bytes || (copy.bytes > 0 && copy.data == nullptr)) {
      return invalid("slot '" + slot.name + "' has " + std::to_string(slot.bytes) + " bytes, " +
                     std::to_string(copy.data == nullptr ? 0 : copy.bytes) + " were given");
    }
  }
  return {};
}

namespace {

// Whether the caller's struct reaches to behind `field`, which is one of it.
template <class Field>
bool has_field(const laneway_job_options& options, const Field& field) {
  const auto* const end = reinterpret_cast<const std::byte*>(&field) + sizeof(Field);
  return options.size >= static_cast<size_t>(end - reinterpret_cast<const std::byte*>(&options));
}

}  // namespace

Status check_job_options(const laneway_job_options* options, const void* graph) {
  if (options == nullptr || options->size < kFirstJobOptions || graph == nullptr ||
      options->job_class > LANEWAY_BEST_EFFORT) {
    return invalid(
        "laneway_job_create needs options (with their size set and a class of laneway_class), a "
        "graph and a place for the job");
  }
  if (has_field(*options, options->replay) && options->replay > LANEWAY_REPLAY_OFF) {
    return invalid("replay " + std::to_string(options->replay) +
                   " is none of laneway_replay: give 0 (auto), 1 (on) or 2 (off)");
  }
  if (options->slot_count > 0 && options->slots == nullptr) {
    return invalid("laneway_job_create was given " + std::to_string(options->slot_count) +
                   " slots and no array of them");
  }
  for (uint32_t i = 0; i < options->slot_count; ++i) {
    if (options->slots[i].kind <= LANEWAY_CONSTANT) continue;
    return invalid("slot " + std::to_string(i) + " has no kind of laneway_slot_kind");
  }
  return {};
}

bool is_shared(const laneway_job_options& options) {
  return has_field(options, options.shared) && options.shared != 0;
}

wire::Replay replay_of(const laneway_job_options& options) {
  return has_field(options, options.replay) ? static_cast<wire::Replay>(options.replay)
                                            : wire::Replay::automatic;
}

Error no_such_graph(const std::string& job, uint32_t number) {
  return invalid("job '" + job + "' has no graph numbered " + std::to_string(number) +
                 ": it was never added, or was dropped");
}

}  // namespace laneway::service
