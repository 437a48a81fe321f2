// JobClass: what a job is for, as its client said. Policies may weigh it; safety never depends on
// it. Numbered as in messages.
#pragma once

#include <cstdint>

namespace laneway::policies {

enum class JobClass : uint8_t { training = 0, inference = 1, best_effort = 2 };

// "training", "inference", "best_effort".
const char* job_class_name(JobClass job_class);

}  // namespace laneway::policies
