#include "service/api/job_request.h"

#include <string>
#include <utility>

namespace laneway::service {
namespace {

// Before `shared` was appended.
constexpr uint32_t kFirstJobOptions = 64;
static_assert(offsetof(laneway_job_options, shared) == kFirstJobOptions);
static_assert(static_cast<int>(JobClass::best_effort) == LANEWAY_BEST_EFFORT);
static_assert(static_cast<int>(Replay::off) == LANEWAY_REPLAY_OFF);
static_assert(static_cast<int>(SlotKind::constant) == LANEWAY_CONSTANT);

Error invalid(std::string message) {
  return Error{ErrorCode::invalid_argument, std::move(message)};
}

// The field of `options`, or `otherwise` when the caller's struct ends before it.
template <class Field>
Field field_or(const laneway_job_options& options, const Field& field, Field otherwise) {
  const auto* const end = reinterpret_cast<const std::byte*>(&field) + sizeof(Field);
  const auto behind = static_cast<size_t>(end - reinterpret_cast<const std::byte*>(&options));
  return options.size >= behind ? field : otherwise;
}

Result<JobOptions> job_options(const laneway_job_options& from) {
  const uint32_t replay = field_or(from, from.replay, 0u);
  if (replay > LANEWAY_REPLAY_OFF) {
    return invalid("replay " + std::to_string(replay) +
                   " is none of laneway_replay: give 0 (auto), 1 (on) or 2 (off)");
  }
  JobOptions options;
  if (from.name != nullptr) options.name = from.name;
  options.job_class = static_cast<JobClass>(from.job_class);
  options.priority = from.priority;
  if (from.weight > 0) options.weight = from.weight;
  options.total_iterations = from.total_iterations;
  options.shared = field_or(from, from.shared, 0u) != 0;
  options.replay = static_cast<Replay>(replay);
  return options;
}

}  // namespace

Result<JobRequest> job_request(const laneway_job_options* options, const void* graph) {
  if (options == nullptr || options->size < kFirstJobOptions || graph == nullptr ||
      options->job_class > LANEWAY_BEST_EFFORT) {
    return invalid(
        "laneway_job_create needs options (with their size set and a class of laneway_class), a "
        "graph and a place for the job");
  }
  Result<JobOptions> chosen = job_options(*options);
  if (!chosen) return chosen.error();
  if (options->slot_count > 0 && options->slots == nullptr) {
    return invalid("laneway_job_create was given " + std::to_string(options->slot_count) +
                   " slots and no array of them");
  }
  JobRequest request{
      .options = std::move(chosen).value(), .slots = {}, .initial = {}, .random_state = {}};
  for (uint32_t i = 0; i < options->slot_count; ++i) {
    const laneway_slot& slot = options->slots[i];
    if (slot.kind > LANEWAY_CONSTANT) {
      return invalid("slot " + std::to_string(i) + " has no kind of laneway_slot_kind");
    }
    request.slots.push_back({.name = slot.name != nullptr ? slot.name : "",
                             .kind = static_cast<SlotKind>(slot.kind),
                             .bytes = slot.bytes});
    request.initial.push_back(slot.initial);
  }
  if (options->random_state != nullptr) {
    request.random_state = {static_cast<const std::byte*>(options->random_state),
                            options->random_state_bytes};
  }
  return request;
}

}  // namespace laneway::service
