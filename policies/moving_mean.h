// MovingMean: the mean time of a job's iterations lately: what was before counts half after each
// kWindow further ones. So it follows a job that changes, and one odd iteration does little. Plain
// data; whole numbers, so that it is the same everywhere.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace laneway::policies {

struct MovingMean {
  static constexpr uint64_t kWindow = 32;

  uint64_t count = 0;
  Duration sum;

  // `many` iterations took `took` together. Requires: neither is negative.
  void add(uint64_t many, Duration took) {
    if (many == 0) return;
    if (many >= kWindow) {
      count = 0;
      sum = Duration();
      // Of so many the mean is as good as that of the window's.
      if (many > 2 * kWindow) {
        const auto all = static_cast<int64_t>(std::min<uint64_t>(many, INT64_MAX));
        took = Duration(took.ns() / all * static_cast<int64_t>(kWindow));
        many = kWindow;
      }
    } else if (count + many > 2 * kWindow) {
      sum = Duration(sum.ns() / static_cast<int64_t>(count) * static_cast<int64_t>(kWindow));
      count = kWindow;
    }
    count += many;
    sum += took;
  }
  // Zero: nothing was added.
  Duration mean() const {
    return count == 0 ? Duration() : Duration(sum.ns() / static_cast<int64_t>(count));
  }
  friend bool operator==(const MovingMean&, const MovingMean&) = default;
};

}  // namespace laneway::policies
