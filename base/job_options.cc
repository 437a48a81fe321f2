#include "base/job_options.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "base/number_text.h"

namespace laneway {
namespace {

// "weight = nan: …".
Status wrong(const std::string& option, const std::string& value, const std::string& remedy) {
  return Error{ErrorCode::invalid_argument, option + " = " + value + ": " + remedy};
}

}  // namespace

const char* job_class_name(JobClass job_class) {
  switch (job_class) {
    case JobClass::training: return "training";
    case JobClass::inference: return "inference";
    case JobClass::best_effort: return "best_effort";
  }
  return "unknown";
}

Status check_job_options(const JobOptions& options) {
  if (options.name.size() > limits::kMaxStringBytes) {
    return Error{ErrorCode::invalid_argument,
                 "the job's name has " + std::to_string(options.name.size()) + " bytes; at most " +
                     std::to_string(limits::kMaxStringBytes) + " are allowed"};
  }
  if (std::abs(int64_t{options.priority}) > limits::kMaxPriority) {
    return wrong("priority", std::to_string(options.priority),
                 "give a whole number from -" + std::to_string(limits::kMaxPriority) + " to " +
                     std::to_string(limits::kMaxPriority));
  }
  // Neither holds for a NaN.
  if (!(options.weight >= limits::kMinWeight && options.weight <= limits::kMaxWeight)) {
    return wrong("weight", number_text(options.weight),
                 "give a number from " + number_text(limits::kMinWeight) + " to " +
                     number_text(limits::kMaxWeight));
  }
  if (options.total_iterations > limits::kMaxTotalIterations) {
    return wrong("total_iterations", std::to_string(options.total_iterations),
                 "give at most " + std::to_string(limits::kMaxTotalIterations) +
                     ", or leave it out when it is not known");
  }
  if (options.deadline < Duration() || options.deadline > limits::kMaxDeadline) {
    return wrong("deadline", seconds_text(options.deadline) + " s",
                 "give seconds from the offer, above 0 and at most " +
                     std::to_string(limits::kMaxDeadline.ns() / 1'000'000'000) +
                     ", or leave it out");
  }
  if (options.iteration_time < Duration() || options.iteration_time > limits::kMaxIterationTime) {
    return wrong("iteration_s", seconds_text(options.iteration_time) + " s",
                 "give the seconds of one iteration, above 0 and at most " +
                     std::to_string(limits::kMaxIterationTime.ns() / 1'000'000'000) +
                     ", or leave it out");
  }
  return {};
}

}  // namespace laneway
