// How a request names a job: by its number, or by its name. A text of decimal digits is a number,
// whatever jobs are called; "name:NAME" is the job of that name; any other text is a name.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace laneway::wire {

struct JobRef {
  std::optional<JobId> id;
  std::string name;  // when there is no id
  bool names(JobId job, const std::string& job_name) const {
    return id ? *id == job : name == job_name;
  }
};

inline JobRef job_ref(std::string_view text) {
  constexpr std::string_view kByName = "name:";
  if (text.substr(0, kByName.size()) == kByName) {
    return {.id = {}, .name = std::string(text.substr(kByName.size()))};
  }
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos) {
    uint64_t number = 0;
    // What is too large for a number is no job's.
    std::from_chars(text.data(), text.data() + text.size(), number);
    return {.id = JobId(number), .name = {}};
  }
  return {.id = {}, .name = std::string(text)};
}

}  // namespace laneway::wire
