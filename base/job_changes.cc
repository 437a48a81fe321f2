#include "base/job_changes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/number_text.h"

namespace laneway {
namespace {

struct Key {
  const char* name;
  JobOption option;
  const char* takes;
};
constexpr std::array kKeys = {
    Key{"priority", JobOption::priority, "a whole number"},
    Key{"weight", JobOption::weight, "a number"},
    Key{"total_iterations", JobOption::total_iterations, "a whole number, or none"},
    Key{"deadline", JobOption::deadline, "seconds from the job's offer, or none"},
    Key{"iteration_s", JobOption::iteration_s, "seconds of one iteration, or none"},
    Key{"job_class", JobOption::job_class, "training, inference or best_effort"},
};

Error invalid(std::string message) {
  return Error{ErrorCode::invalid_argument, std::move(message)};
}

std::string all_keys() {
  std::string names;
  for (const Key& key : kKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
  return names;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Puts the number into *field; false when the text is none.
template <class Number>
bool read(std::string_view text, Number* field) {
  const auto number = number_of<Number>(text);
  if (number) *field = *number;
  return number.has_value();
}

// Seconds, or "none"; at most `most`.
bool read_seconds(std::string_view text, Duration limit, Duration* field) {
  *field = Duration();
  if (text == "none") return true;
  const auto seconds = number_of<double>(text);
  if (!seconds) return false;
  // What no Duration can hold is refused as what is just above the limit.
  const double most = static_cast<double>(limit.ns()) / 1e9 + 1;
  const bool fits = *seconds > 0 && *seconds < most;  // neither holds for a NaN
  const double kept = fits ? *seconds : (*seconds > 0 ? most : -1.0);
  *field = Duration(static_cast<int64_t>(std::ceil(kept * 1e9)));
  return true;
}

bool read_class(std::string_view text, JobClass* field) {
  for (const JobClass one : {JobClass::training, JobClass::inference, JobClass::best_effort}) {
    if (text != job_class_name(one)) continue;
    *field = one;
    return true;
  }
  return false;
}

bool read_value(JobOption option, std::string_view text, JobOptions* values) {
  switch (option) {
    case JobOption::priority: return read(text, &values->priority);
    case JobOption::weight: return read(text, &values->weight);
    case JobOption::total_iterations:
      values->total_iterations = 0;
      if (text == "none") return true;
      return read(text, &values->total_iterations) && values->total_iterations > 0;
    case JobOption::deadline: return read_seconds(text, limits::kMaxDeadline, &values->deadline);
    case JobOption::iteration_s:
      return read_seconds(text, limits::kMaxIterationTime, &values->iteration_time);
    case JobOption::job_class: return read_class(text, &values->job_class);
  }
  return false;
}

Status read_setting(std::string_view setting, JobChanges* changes) {
  const size_t sign = setting.find('=');
  const std::string_view name = setting.substr(0, sign);
  for (const Key& key : kKeys) {
    if (name != key.name || sign == std::string_view::npos) continue;
    const std::string_view value = setting.substr(sign + 1);
    if (changes->has(key.option)) return invalid(std::string(name) + " is given twice");
    changes->given |= static_cast<uint8_t>(key.option);
    if (read_value(key.option, value, &changes->values)) return {};
    return invalid(std::string(name) + " = '" + std::string(value) + "': give " + key.takes);
  }
  return invalid("'" + std::string(setting) + "' sets no option of a job: give KEY=VALUE, with " +
                 all_keys());
}

}  // namespace

void JobChanges::apply_to(JobOptions& options) const {
  if (has(JobOption::priority)) options.priority = values.priority;
  if (has(JobOption::weight)) options.weight = values.weight;
  if (has(JobOption::total_iterations)) options.total_iterations = values.total_iterations;
  if (has(JobOption::deadline)) options.deadline = values.deadline;
  if (has(JobOption::iteration_s)) options.iteration_time = values.iteration_time;
  if (has(JobOption::job_class)) options.job_class = values.job_class;
}

Result<JobChanges> parse_job_changes(std::string_view text) {
  JobChanges changes;
  constexpr std::string_view kBlanks = " \t\r\n";
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    if (Status taken = read_setting(text.substr(at, end - at), &changes); !taken) {
      return taken.error();
    }
    at = text.find_first_not_of(kBlanks, end);
  }
  if (changes.given == 0) return invalid("nothing is set: give KEY=VALUE, with " + all_keys());
  if (Status right = check_job_changes(changes); !right) return right.error();
  return changes;
}

std::string job_changes_text(const JobChanges& changes) {
  std::string text;
  const auto add = [&](JobOption option, const char* name, const std::string& value) {
    if (changes.has(option)) text += (text.empty() ? "" : " ") + std::string(name) + "=" + value;
  };
  const JobOptions& values = changes.values;
  add(JobOption::priority, "priority", std::to_string(values.priority));
  add(JobOption::weight, "weight", number_text(values.weight));
  add(JobOption::total_iterations, "total_iterations",
      values.total_iterations > 0 ? std::to_string(values.total_iterations) : "none");
  const auto seconds_or_none = [](Duration time) {
    return time > Duration() ? seconds_text(time) : "none";
  };
  add(JobOption::deadline, "deadline", seconds_or_none(values.deadline));
  add(JobOption::iteration_s, "iteration_s", seconds_or_none(values.iteration_time));
  add(JobOption::job_class, "job_class", job_class_name(values.job_class));
  return text;
}

Status check_job_changes(const JobChanges& changes) {
  JobOptions options;
  changes.apply_to(options);
  return check_job_options(options);
}

}  // namespace laneway
