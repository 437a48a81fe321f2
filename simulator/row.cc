#include "simulator/row.h"

#include <charconv>
#include <chrono>

#include "base/limits.h"

namespace laneway::simulator {

int32_t Row::priority() {
  const int64_t given = number("priority", 1, -limits::kMaxPriority, 0);
  if (given <= limits::kMaxPriority) return static_cast<int32_t>(given);
  fail("priority", "priorities go up to " + std::to_string(limits::kMaxPriority));
  return 0;
}

JobClass Row::job_class() {
  const std::string name = text("job_class");
  if (name.empty()) return JobClass::training;
  for (const JobClass one : {JobClass::training, JobClass::inference, JobClass::best_effort}) {
    if (name == job_class_name(one)) return one;
  }
  fail("job_class", "'" + name + "' is none of training, inference, best_effort");
  return JobClass::training;
}

int64_t Row::wall_time(std::string_view column) {
  const std::string given = text(column);
  constexpr std::string_view kForm = "0000-00-00 00:00:00";
  bool fits = given.size() == kForm.size();
  for (size_t i = 0; fits && i < kForm.size(); ++i) {
    const bool digit = given[i] >= '0' && given[i] <= '9';
    fits = kForm[i] == '0' ? digit : given[i] == kForm[i];
  }
  const auto part = [&](size_t begin, size_t size) {
    int value = 0;
    std::from_chars(given.data() + begin, given.data() + begin + size, value);
    return value;
  };
  if (fits) {
    const std::chrono::year_month_day day{std::chrono::year(part(0, 4)),
                                          std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                          std::chrono::day(static_cast<unsigned>(part(8, 2)))};
    const int64_t of_day = (part(11, 2) * 60 + part(14, 2)) * 60 + part(17, 2);
    const bool is_time = part(11, 2) < 24 && part(14, 2) < 60 && part(17, 2) < 60;
    if (day.ok() && is_time) {
      return int64_t{std::chrono::sys_days(day).time_since_epoch().count()} * 86'400 + of_day;
    }
  }
  fail(column, "'" + given + "' is no time such as 2017-10-09 07:01:55");
  return 0;
}

}  // namespace laneway::simulator
