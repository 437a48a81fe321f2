// ContextTurns: jobs whose process-wide numeric settings differ (their context keys) never have
// open turns at the same time. This class records the open key and the waiting keys, first come,
// first served, so that none starves: once a key waits, the open one has what is left of its
// period, which is as many turns in each lane as jobs of it wanted one there when it began; then no
// turn of it starts, and when the open turns have ended the waiting key has its period. So keys
// share by the number of their jobs, and lanes drain once in a period. Deterministic, not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "lanes/state/turn.h"

namespace laneway::lanes {

class ContextTurns {
 public:
  explicit ContextTurns(size_t lanes) : due_(lanes) {}

  // Whether a turn of this key may be opened now without overtaking a key that waits.
  bool may_open(uint64_t key) const;
  // A turn of the key in that lane, which is one of those that are due there.
  void opened(uint64_t key, LaneId lane);
  void closed();

  // Of the open turns, or of those that were open last.
  uint64_t key() const { return key_; }
  // How many more turns its period has in that lane, while others wait.
  void set_due(LaneId lane, uint32_t turns);
  bool is_due(LaneId lane) const { return (owing_ & set_of(lane)) != 0; }
  void end_period();

  // The key waits from now on. Returns false when it waited already.
  bool wait(uint64_t key);
  // Whether a key waits: turns that are granted meanwhile need a bound.
  bool contended() const { return !queue_.empty(); }
  // Forgets the waiting keys that are not in `keys`: their jobs are gone.
  void keep_only(const std::set<uint64_t>& keys);
  // Whether the key that waited longest may be opened: no turn is open, or only turns of this key.
  bool next_may_open() const;
  // … and that key is this one.
  bool is_next(uint64_t key) const { return next_may_open() && queue_.front() == key; }
  // Returns that key, which does not wait any more and whose period begins. Requires:
  // next_may_open().
  uint64_t take_next();

 private:
  uint64_t key_ = 0;
  uint64_t open_ = 0;  // how many turns are open
  std::deque<uint64_t> queue_;
  std::vector<uint32_t> due_;  // by lane: slot i is lane i + 1
  LaneSet owing_ = 0;          // lanes of which that is not 0
};

}  // namespace laneway::lanes
