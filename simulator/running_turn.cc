#include "simulator/running_turn.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace laneway::simulator {

uint64_t RunningTurn::advance(TimePoint now) {
  if (now <= at_) return 0;
  const Duration passed = now - at_;
  at_ = now;
  if (!works_) return 0;
  busy_ += passed;
  if (speed_ == 1) {
    own_ns_ += passed.ns();
  } else {
    const double own = static_cast<double>(passed.ns()) * speed_ + rest_ns_;
    const int64_t whole = std::llround(own);
    own_ns_ += whole;
    rest_ns_ = own - static_cast<double>(whole);
  }
  const int64_t ended = own_ns_ / iteration_.ns();
  own_ns_ %= iteration_.ns();
  done_ += static_cast<uint64_t>(ended);
  if (ended > 0 && speed_ != 1 && static_cast<double>(own_ns_) <= speed_ + 1) {
    // A boundary is met at whole nanoseconds: what is behind it then is the next one's.
    rest_ns_ += static_cast<double>(std::exchange(own_ns_, 0));
  }
  if (ended > 0) worked_ = now + Duration(-own_ns_);
  return static_cast<uint64_t>(ended);
}

void RunningTurn::set_working(TimePoint now, bool works) {
  if (works && !works_) at_ = std::max(now, begins_);
  works_ = works;
}

uint64_t RunningTurn::goal(uint64_t queued) const {
  const lanes::TurnBudget& budget = turn_.envelope.budget;
  uint64_t goal = queued;
  if (recalled_) goal = 1;
  if (budget.iterations > 0) {
    goal = std::min(goal, budget.iterations > done_ ? budget.iterations - done_ : 1);
  }
  if (budget.slice > Duration()) {
    const Duration left = std::max(begins_ + budget.slice - at_, Duration(1));
    const double own = std::ceil(static_cast<double>(left.ns()) * speed_ - rest_ns_);
    const int64_t ns = (speed_ == 1 ? left.ns() : static_cast<int64_t>(own)) + own_ns_;
    const int64_t boundary = (ns + iteration_.ns() - 1) / iteration_.ns();
    goal = std::min(goal, static_cast<uint64_t>(std::max<int64_t>(boundary, 1)));
  }
  return goal;
}

TimePoint RunningTurn::due(uint64_t queued, bool one_by_one) const {
  if (!works_) return TimePoint::never();
  const uint64_t iterations = one_by_one ? 1 : goal(queued);
  const int64_t room = INT64_MAX / 4 - at_.ns();  // later than that is never
  if (iterations > static_cast<uint64_t>(room / iteration_.ns())) return TimePoint::never();
  const int64_t own = static_cast<int64_t>(iterations) * iteration_.ns() - own_ns_;
  if (speed_ == 1) return at_ + Duration(own);
  const double takes = std::ceil((static_cast<double>(own) - rest_ns_) / speed_);
  return at_ + Duration(std::max<int64_t>(static_cast<int64_t>(takes), 1));
}

bool RunningTurn::is_over(TimePoint now, uint64_t queued) const {
  const lanes::TurnBudget& budget = turn_.envelope.budget;
  if (own_ns_ != 0) return false;
  if (queued == 0) return recalled_ || budget.is_bound();
  if (done_ == 0) return false;
  if (recalled_ || (budget.iterations > 0 && done_ >= budget.iterations)) return true;
  return budget.slice > Duration() && now - begins_ >= budget.slice;
}

lanes::TurnEnded RunningTurn::end(TimePoint now, bool more_ready, Bytes ephemeral) const {
  return {.turn = turn_.id,
          .end = more_ready ? lanes::TurnEnd::budget : lanes::TurnEnd::idle,
          .iterations = done_,
          .busy = busy_,
          .more_ready = more_ready,
          .ephemeral = ephemeral,
          .idle = done_ > 0 ? now - worked_ : Duration()};
}

}  // namespace laneway::simulator
