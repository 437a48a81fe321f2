// JobPace: how long an iteration of a job takes lately by the clock on the wall, its client's own
// work and what others take of its lane included. Pure, deterministic.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace laneway::service {

class JobPace {
 public:
  // The job has run so many iterations by now.
  void saw(TimePoint now, uint64_t iterations);

  // Over about the last limits::kPaceWindow that was looked at. Zero: unknown, or it stands still.
  Duration per_iteration() const { return per_iteration_; }

 private:
  struct Mark {
    TimePoint at;
    uint64_t iterations = 0;
  };
  std::optional<Mark> mark_;
  Duration per_iteration_;
};

}  // namespace laneway::service
