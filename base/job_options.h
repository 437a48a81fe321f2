// JobOptions: the options that a client chooses for a job, in one struct that every layer embeds as
// a whole: the C interface fills it once (service/api/job_request.h), messages and the broker's
// records carry it, the core is offered it, policies and the status read it. service/README.md
// lists the steps that add an option. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace laneway {

// Numbered as in messages and in laneway.h; never renumber. Policies may weigh the class of a job;
// safety never depends on it.
enum class JobClass : uint8_t { training = 0, inference = 1, best_effort = 2 };
// "training", "inference", "best_effort".
const char* job_class_name(JobClass job_class);

// Whether a device's work of an iteration is recorded and replayed.
enum class Replay : uint8_t { automatic = 0, on = 1, off = 2 };

// Must be raised with every change of the fields: the versions of all messages and files that carry
// JobOptions include it.
inline constexpr uint16_t kJobOptionsVersion = 3;

struct JobOptions {
  std::string name;  // empty in a request: the service gives "job-N"
  JobClass job_class = JobClass::training;
  int32_t priority = 0;  // higher is more urgent, where a policy reads it
  double weight = 1.0;   // of the device's time, relative to other jobs, where a policy reads it
  uint64_t total_iterations = 0;  // 0: unknown
  bool shared = false;            // other sessions of the same user may attach
  Replay replay = Replay::automatic;
  // Its iterations should all be done so long after its first offer; 0: none.
  Duration deadline = Duration();
  // Of one iteration alone, as its client says; until one is measured. 0: unknown.
  Duration iteration_time = Duration();
  friend bool operator==(const JobOptions&, const JobOptions&) = default;
};

// What a client chose is within its limits (base/limits.h); else invalid_argument names the option,
// its value, and what it may be. Options come from other processes: each edge asks.
Status check_job_options(const JobOptions& options);

}  // namespace laneway
