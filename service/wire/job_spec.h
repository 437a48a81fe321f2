// JobSpec: what a client says of a job that it creates, beside the graph and the initial bytes. The
// same fields go from the client to the broker, into the record that the supervisor holds, and to
// the worker. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/image_slot.h"
#include "base/job_options.h"
#include "base/weight_files.h"

namespace laneway::wire {

struct JobSpec {
  JobOptions options;
  std::vector<ImageSlot> slots;
  std::vector<uint8_t> random_state;  // empty: torch's default seed
  bool has_initial = false;           // the slots' first bytes come as a descriptor; else zeros
  WeightFiles weights;                // of slots whose first bytes lie in files
  // How many come with the message: the graph, the initial bytes, the files.
  size_t descriptors() const { return (has_initial ? 2 : 1) + weights.files.size(); }
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

}  // namespace laneway::wire
