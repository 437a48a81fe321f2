// ContextTurns: jobs whose process-wide numeric settings differ (their context keys) never have
// open turns at the same time. This class records the open key and the waiting keys, first come,
// first served, so that none starves: once a key waits, no further turn of the open key starts;
// when the open turns have ended the waiting key gets its turn. Deterministic, not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <set>

namespace laneway::lanes {

class ContextTurns {
 public:
  // Whether a turn of this key may be opened now without overtaking a key that waits.
  bool may_open(uint64_t key) const;
  void opened(uint64_t key);
  void closed();

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
  // Returns that key, which does not wait any more. Requires: next_may_open().
  uint64_t take_next();

 private:
  uint64_t key_ = 0;   // of the open turns
  uint64_t open_ = 0;  // how many turns are open
  std::deque<uint64_t> queue_;
};

}  // namespace laneway::lanes
