#include "base/fault_point.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace laneway {
namespace {

struct Point {
  std::string name;
  uint64_t left = 1;  // passes until the process is killed
};

struct Points {
  Mutex mutex;
  std::vector<Point> list LW_GUARDED_BY(mutex);
};

// Never destroyed: threads may pass a point while the process exits.
Points& points() {
  static Points* const all = new Points;
  return *all;
}

Result<Point> parse_point(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const size_t dot = name.find('.');
  Point point{.name = std::string(name)};
  bool good = dot != std::string_view::npos && dot > 0 && dot + 1 < name.size();
  if (colon != std::string_view::npos) {
    const std::string_view count = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(count.data(), count.data() + count.size(), point.left);
    good = good && error == std::errc() && end == count.data() + count.size() && point.left > 0;
  }
  if (good) return point;
  return Error{ErrorCode::invalid_argument,
               "\"" + std::string(text) +
                   "\" names no fault point; the form is PROGRAM.POINT or PROGRAM.POINT:nth, as in "
                   "\"broker.job_held:2\", several separated by commas"};
}

}  // namespace

namespace fault_detail {

std::atomic<bool> armed{false};

void pass(std::string_view name) {
  MutexLock lock(points().mutex);
  for (Point& point : points().list) {
    if (point.name == name && point.left > 0 && --point.left == 0) {
      kill(getpid(), SIGKILL);
      // The signal may reach another thread first; nothing after the point may happen.
      while (true) pause();
    }
  }
}

}  // namespace fault_detail

Status arm_fault_points(std::string_view text) {
  std::vector<Point> list;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    Result<Point> point = parse_point(text.substr(0, comma));
    if (!point) return point.error();
    list.push_back(std::move(point).value());
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  MutexLock lock(points().mutex);
  fault_detail::armed.store(!list.empty(), std::memory_order_relaxed);
  points().list = std::move(list);
  return {};
}

Status arm_fault_points_from_environment() {
  const char* const text = std::getenv("LANEWAY_FAULT");
  return text == nullptr ? Status() : arm_fault_points(text);
}

}  // namespace laneway
