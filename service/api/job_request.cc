#include "service/api/job_request.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
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
  const auto* const end = reinterpret_cast<const std::byte*>(&field + 1);
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
  if (from.weight != 0) options.weight = from.weight;
  options.total_iterations = from.total_iterations;
  options.shared = field_or(from, from.shared, 0u) != 0;
  options.replay = static_cast<Replay>(replay);
  options.deadline = Duration(field_or(from, from.deadline_ns, int64_t{0}));
  options.iteration_time = Duration(field_or(from, from.iteration_ns, int64_t{0}));
  if (Status right = check_job_options(options); !right) return right.error();
  return options;
}

// A file as it is now.
Result<WeightFile> weight_file(const laneway_file& from, size_t number) {
  WeightFile file{.name = from.name != nullptr ? from.name : "file " + std::to_string(number),
                  .bytes = 0,
                  .modified_ns = 0};
  struct stat now {};
  if (::fstat(from.descriptor, &now) != 0) {
    return invalid("'" + file.name + "': descriptor " + std::to_string(from.descriptor) + ": " +
                   std::strerror(errno));
  }
  if (!S_ISREG(now.st_mode)) {
    return invalid("'" + file.name + "' is no regular file: weights are read from one");
  }
  file.bytes = static_cast<uint64_t>(now.st_size);
  file.modified_ns = int64_t{now.st_mtim.tv_sec} * 1'000'000'000 + int64_t{now.st_mtim.tv_nsec};
  return file;
}

Status take_files(const laneway_job_options& options, JobRequest& request) {
  const uint32_t files = field_or(options, options.file_count, 0u);
  const uint32_t ranges = field_or(options, options.range_count, 0u);
  const auto* const range =
      field_or(options, options.ranges, static_cast<const laneway_file_range*>(nullptr));
  if ((files > 0 && options.files == nullptr) || (ranges > 0 && range == nullptr)) {
    return invalid("laneway_job_create was given " + std::to_string(files) + " files and " +
                   std::to_string(ranges) + " ranges, and no arrays of them");
  }
  for (uint32_t i = 0; i < files; ++i) {
    auto file = weight_file(options.files[i], i);
    if (!file) return file.error();
    request.weights.files.push_back(std::move(file).value());
    request.file_descriptors.push_back(options.files[i].descriptor);
  }
  for (uint32_t i = 0; i < ranges; ++i) {
    request.weights.ranges.push_back({.slot = range[i].slot,
                                      .file = range[i].file,
                                      .slot_offset = range[i].slot_offset,
                                      .file_offset = range[i].file_offset,
                                      .bytes = range[i].bytes,
                                      .has_crc32 = range[i].has_crc32 != 0,
                                      .crc32 = range[i].crc32});
  }
  if (Status right = check_weight_files(request.slots, request.weights); !right) return right;
  for (const FileRange& one : request.weights.ranges) {
    if (request.initial[one.slot] == nullptr) continue;
    return invalid("slot '" + request.slots[one.slot].name +
                   "' has its first bytes both in memory and in a file: give one of them");
  }
  return {};
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
  JobRequest request;
  request.options = std::move(chosen).value();
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
  if (Status taken = take_files(*options, request); !taken) return taken.error();
  return request;
}

}  // namespace laneway::service
