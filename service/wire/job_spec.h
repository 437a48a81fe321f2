// JobSpec: what a client says of a job that it creates, beside the graph and the initial bytes. The
// same fields go from the client to the broker, into the record that the supervisor holds, and to
// the worker. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace laneway::wire {

// Numbered as in messages (and as in laneway.h); never renumber.
enum class SlotKind : uint8_t {
  parameter = 0,
  buffer = 1,
  optimizer_state = 2,
  gradient = 3,
  constant = 4
};
enum class JobClass : uint8_t { training = 0, inference = 1, best_effort = 2 };
// Whether a device's work of an iteration is recorded and replayed.
enum class Replay : uint8_t { automatic = 0, on = 1, off = 2 };

// One persistent storage of a job's image.
struct SlotSpec {
  std::string name;
  SlotKind kind = SlotKind::parameter;
  uint64_t bytes = 0;
  friend bool operator==(const SlotSpec&, const SlotSpec&) = default;
  template <class A>
  void serialize(A& archive) {
    archive(name, kind, bytes);
  }
};

struct JobSpec {
  std::string name;  // empty: the service gives "job-N"
  JobClass job_class = JobClass::training;
  int32_t priority = 0;
  double weight = 1.0;
  uint64_t total_iterations = 0;  // 0: unknown
  bool shared = false;            // other sessions of the same user may attach
  std::vector<SlotSpec> slots;
  std::vector<uint8_t> random_state;  // empty: torch's default seed
  bool has_initial = false;           // the slots' first bytes come as a descriptor; else zeros
  Replay replay = Replay::automatic;
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
  template <class A>
  void serialize(A& archive) {
    archive(name, job_class, priority, weight, total_iterations, shared, slots, random_state,
            has_initial, replay);
  }
};

}  // namespace laneway::wire
