// MemoryPressure: whether the kernel killed processes lately because the machine's memory ran out.
// The kernel counts such kills in /proc/vmstat (oom_kill) and does not say whom it killed, so a
// worker that was killed with SIGKILL while the count grew is taken for one of them. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"

namespace laneway::service {

class MemoryPressure {
 public:
  // `file`: in the form of /proc/vmstat. One that cannot be read counts nothing.
  explicit MemoryPressure(std::string file) : file_(std::move(file)) {}

  // Must be called now and then: kills are known by the growth between two looks.
  void look(TimePoint now);
  // Whether the count has grown within the last seconds, after a look.
  bool killed_lately(TimePoint now) const;

 private:
  std::string file_;
  std::optional<uint64_t> count_;
  std::optional<TimePoint> grew_at_;
};

}  // namespace laneway::service
