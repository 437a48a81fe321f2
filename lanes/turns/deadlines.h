// Deadlines: a time per lane, and the earliest of all, which the core asks for after each event.
// Part of the core; not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/limits.h"
#include "base/time.h"

namespace laneway::lanes {

class Deadlines {
 public:
  Deadlines() {
    times_.fill(TimePoint::never());
    earliest_.fill(TimePoint::never());
  }

  TimePoint at(size_t slot) const { return times_[slot]; }
  // Requires: slot < limits::kMaxLanes.
  void set(size_t slot, TimePoint time) {
    times_[slot] = time;
    const size_t group = slot / kGroup;
    const auto first = times_.begin() + static_cast<std::ptrdiff_t>(group * kGroup);
    earliest_[group] = *std::min_element(first, first + kGroup);
  }
  void clear(size_t slot) { set(slot, TimePoint::never()); }
  // TimePoint::never() when there is none.
  TimePoint earliest() const { return *std::min_element(earliest_.begin(), earliest_.end()); }

 private:
  static constexpr size_t kGroup = 8;
  static_assert(limits::kMaxLanes % kGroup == 0);

  std::array<TimePoint, limits::kMaxLanes> times_;
  std::array<TimePoint, limits::kMaxLanes / kGroup> earliest_;
};

}  // namespace laneway::lanes
