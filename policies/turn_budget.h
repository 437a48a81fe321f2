// TurnBudget: the bound of a turn: the worker ends it at the first iteration boundary behind so
// many iterations or so much time, whichever comes first. Plain data.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace laneway::policies {

// 0 means no bound of this kind.
struct TurnBudget {
  uint64_t iterations = 0;
  Duration slice = Duration();
  bool is_bound() const { return iterations > 0 || slice > Duration(); }
  template <class A>
  void serialize(A& archive) {
    archive(iterations, slice);
  }
};

}  // namespace laneway::policies
