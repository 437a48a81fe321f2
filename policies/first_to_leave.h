// FirstToLeave: whom a policy that is an order lets go. Idle jobs first: who has not been used for
// longest, for what it costs. Unused time is set against the transfers that leaving costs (one when
// the image comes back, another one first unless a copy lies outside already); bytes cancel out,
// because what is freed grows with them as the cost does. Then jobs with work, the highest rank
// first, and none for a job of a higher rank than its own; of equal ones who has been in the pool
// for longest, so that they take turns.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "policies/decision.h"

namespace laneway::policies {

// Of a job whose image may leave, what decides.
struct Leaver {
  int64_t rank = 0;
  TimePoint placed_at;
  TimePoint used_at;
  bool idle = false;
  bool clean = false;
  friend bool operator==(const Leaver&, const Leaver&) = default;
};

inline Leaver leaver(const EvictCandidate& one, int64_t rank) {
  return {.rank = rank,
          .placed_at = one.job->placed_at,
          .used_at = one.job->used_at,
          .idle = one.idle,
          .clean = one.clean};
}

class FirstToLeave {
 public:
  // For a job of that rank.
  FirstToLeave(TimePoint now, int64_t wants) : now_(now), rank_(wants) {}

  // Whether it leaves before all those that it was shown so far.
  bool is_first(const Leaver& one) {
    if (one.idle) return is_least_used(one);
    // While there is none, equal ones may leave as well.
    if (idle_ || one.rank < rank_ || (one.rank == rank_ && one.placed_at >= placed_at_)) {
      return false;
    }
    rank_ = one.rank;
    placed_at_ = one.placed_at;
    return true;
  }

  // One with work and a lower rank need not be shown any more.
  int64_t least_rank() const { return idle_ ? INT64_MAX : rank_; }

 private:
  bool is_least_used(const Leaver& one) {
    const Duration unused = (now_ - one.used_at) * (one.clean ? 2 : 1);
    if (idle_ && unused <= unused_) return false;
    idle_ = true;
    unused_ = unused;
    return true;
  }

  TimePoint now_;
  int64_t rank_;  // of the first one; while there is none, of who wants the room
  TimePoint placed_at_ = TimePoint::never();
  bool idle_ = false;
  Duration unused_;
};

}  // namespace laneway::policies
