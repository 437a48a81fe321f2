#include "base/fault_point.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace laneway {
namespace {

enum class Action : uint8_t { kill, segv, abrt, exit, stop, hang, wait };

struct Deed {
  Action action = Action::kill;
  std::string path = {};  // of the file for which `wait` waits
};

struct Point {
  std::string name;
  uint64_t left = 1;  // passes until it happens
  Deed deed = {};
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

std::optional<Deed> parse_deed(std::string_view text) {
  constexpr std::string_view kWhile = "while:";
  if (text == "segv") return Deed{Action::segv, {}};
  if (text == "abrt") return Deed{Action::abrt, {}};
  if (text == "exit") return Deed{Action::exit, {}};
  if (text == "stop") return Deed{Action::stop, {}};
  if (text == "hang") return Deed{Action::hang, {}};
  if (!text.starts_with(kWhile) || text.size() == kWhile.size()) return std::nullopt;
  return Deed{Action::wait, std::string(text.substr(kWhile.size()))};
}

Result<Point> parse_point(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view place = text.substr(0, equals);
  const size_t colon = place.find(':');
  const std::string_view name = place.substr(0, colon);
  const size_t dot = name.find('.');
  Point point{.name = std::string(name)};
  bool good = dot != std::string_view::npos && dot > 0 && dot + 1 < name.size();
  if (equals != std::string_view::npos) {
    std::optional<Deed> deed = parse_deed(text.substr(equals + 1));
    good = good && deed.has_value();
    if (deed) point.deed = std::move(*deed);
  }
  if (colon != std::string_view::npos) {
    const std::string_view count = place.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(count.data(), count.data() + count.size(), point.left);
    good = good && error == std::errc() && end == count.data() + count.size() && point.left > 0;
  }
  if (good) return point;
  return Error{
      ErrorCode::invalid_argument,
      "\"" + std::string(text) +
          "\" names no fault point; the form is PROGRAM.POINT or PROGRAM.POINT:nth, as in "
          "\"broker.job_held:2\", with =segv, =abrt, =exit, =stop, =hang or =while:PATH behind "
          "it for what is not killed; several separated by commas"};
}

void wait_for_end_of(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) return;
  const int here = creat((path + ".here").c_str(), 0600);
  if (here >= 0) close(here);
  while (access(path.c_str(), F_OK) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace

namespace fault_detail {

std::atomic<bool> armed{false};

namespace {

std::optional<Deed> due(std::string_view name) {
  const MutexLock lock(points().mutex);
  for (Point& point : points().list) {
    if (point.name != name) continue;
    const bool passed = point.left == 0;
    if (!passed) --point.left;
    if (point.left == 0 && (!passed || point.deed.action == Action::wait)) return point.deed;
  }
  return std::nullopt;
}

}  // namespace

void pass(std::string_view name) {
  const std::optional<Deed> deed = due(name);
  if (!deed) return;
  const Action action = deed->action;
  if (action == Action::segv) raise(SIGSEGV);
  if (action == Action::abrt) raise(SIGABRT);
  if (action == Action::exit) std::exit(1);  // NOLINT(concurrency-mt-unsafe): so do libraries
  // To this thread, so that it does not get past the point before it stops.
  if (action == Action::stop) return static_cast<void>(raise(SIGSTOP));
  if (action == Action::wait) return wait_for_end_of(deed->path);
  if (action == Action::kill) kill(getpid(), SIGKILL);
  // That signal may reach another thread first; nothing after the point may happen.
  while (true) pause();
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
