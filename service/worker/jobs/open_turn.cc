#include "service/worker/jobs/open_turn.h"

#include <algorithm>

#include "base/check.h"
#include "service/worker/common/limits.h"

namespace laneway::service {

void OpenTurn::begin(const lanes::Turn& turn) {
  LW_CHECK(!turn_, "a lane has one turn at a time");
  turn_ = turn;
  to_end_ = false;
  iterations_ = 0;
  abandoned_ = 0;
  busy_ = Duration();
  uncounted_ = probes_ = {};
  start_ = worked_ = clock_.now();
}

bool OpenTurn::is_bounded() const {
  const lanes::TurnBudget& budget = turn_->envelope.budget;
  return budget.iterations > 0 || budget.slice.ns() > 0;
}

bool OpenTurn::budget_used() const {
  const lanes::TurnBudget& budget = turn_->envelope.budget;
  if (budget.iterations > 0 && iterations_ >= budget.iterations) return true;
  return budget.slice.ns() > 0 && clock_.now() - start_ >= budget.slice;
}

std::optional<Duration> OpenTurn::looks_again(bool busy) const {
  if (!turn_ || lingers() <= Duration()) return std::nullopt;
  return busy ? lingers() : std::max(lingers() - idle(), limits::kShortestLinger);
}

lanes::TurnEnded OpenTurn::end(lanes::TurnEnd why, bool more_ready, Bytes ephemeral) {
  if (why == lanes::TurnEnd::idle && more_ready) why = lanes::TurnEnd::budget;
  const lanes::TurnEnded ended{.turn = turn_->id,
                               .end = why,
                               .iterations = iterations_,
                               .busy = busy_,
                               .more_ready = more_ready,
                               .ephemeral = ephemeral,
                               .idle = iterations_ > 0 ? clock_.now() - worked_ : Duration(),
                               .uncounted = uncounted_,
                               .probes = probes_,
                               .abandoned = abandoned_};
  turn_.reset();
  to_end_ = false;
  return ended;
}

}  // namespace laneway::service
