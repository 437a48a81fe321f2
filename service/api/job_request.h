// JobRequest: what a client asks for when it creates a job, beside the graph: the only place where
// laneway_job_options become fields of this program. Both libraries of laneway.h take it from here.
// The function only looks at files.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/image_slot.h"
#include "base/job_options.h"
#include "base/result.h"
#include "base/weight_files.h"
#include "service/api/laneway.h"

namespace laneway::service {

struct JobRequest {
  JobOptions options;
  std::vector<ImageSlot> slots;
  std::vector<const void*> initial;         // by slot, borrowed from the caller; null: zeros
  std::span<const std::byte> random_state;  // borrowed from the caller; empty: torch's default seed
  WeightFiles weights;                      // slots that have no entry in `initial`
  std::vector<int> file_descriptors;        // by file, borrowed from the caller
};

// invalid_argument when options or graph are null, the caller's size is of no version, or a kind
// or class does not exist, or a file cannot be used as one. Fields behind the caller's size are not
// read and have their defaults.
Result<JobRequest> job_request(const laneway_job_options* options, const void* graph);

}  // namespace laneway::service
