// JobChanges: options of a job that change while it is there, as `laneway set JOB KEY=VALUE…` asks
// for them. Those that decide what a policy does with the job can be changed; its name, and what
// its worker made of it, cannot. Plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/job_options.h"
#include "base/result.h"

namespace laneway {

// Bits of JobChanges::given; never renumber.
enum class JobOption : uint8_t {
  priority = 1,
  weight = 2,
  total_iterations = 4,
  deadline = 8,
  job_class = 16,
  iteration_s = 32,
};

struct JobChanges {
  uint8_t given = 0;  // which of `values` are to be the job's; bits of JobOption
  JobOptions values;
  bool has(JobOption option) const { return (given & static_cast<uint8_t>(option)) != 0; }
  void apply_to(JobOptions& options) const;
  friend bool operator==(const JobChanges&, const JobChanges&) = default;
};

// "KEY=VALUE", or several with blanks between; the keys are the names of the options, a deadline is
// in seconds from the offer, iteration_s in seconds, and these two and total_iterations may be
// "none". invalid_argument names the key, the value, and what it may be.
Result<JobChanges> parse_job_changes(std::string_view text);
// What parse_job_changes takes.
std::string job_changes_text(const JobChanges& changes);
// invalid_argument when a job may not have one of the values.
Status check_job_changes(const JobChanges& changes);

}  // namespace laneway
