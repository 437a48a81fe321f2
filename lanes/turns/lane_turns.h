// LaneTurns: lanes take turns in a trial: a lane that may not begin yet waits here, first come,
// first served. So each waits for turns that are open already, and for one of each lane before it.
// Plain data; not thread-safe.
#pragma once

#include <vector>

#include "base/ids.h"

namespace laneway::lanes {

class LaneTurns {
 public:
  struct Waiting {
    LaneId lane;
    JobId job;  // that would run
  };

  // It waits from now on, or keeps its place.
  void wait(const Waiting& waiting);
  void leave(LaneId lane);
  void clear() { queue_.clear(); }
  bool empty() const { return queue_.empty(); }
  const std::vector<Waiting>& queue() const { return queue_; }

 private:
  std::vector<Waiting> queue_;
};

}  // namespace laneway::lanes
