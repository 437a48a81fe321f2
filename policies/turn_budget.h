// TurnBudget: the bound of a turn: the worker ends it at the first iteration boundary behind so
// many iterations or so much time, whichever comes first. Plain data.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace laneway::policies {

// 0 means no bound of this kind.
struct TurnBudget {
  uint64_t iterations = 0;
  Duration slice = Duration();
  bool is_bound() const { return iterations > 0 || slice > Duration(); }
};

// Bounded by both, of which each is a bound.
inline TurnBudget shorter(const TurnBudget& a, const TurnBudget& b) {
  const auto lesser = [](auto x, auto y) {
    return x <= decltype(x){} ? y : y <= decltype(y){} ? x : std::min(x, y);
  };
  return {.iterations = lesser(a.iterations, b.iterations), .slice = lesser(a.slice, b.slice)};
}

}  // namespace laneway::policies
