// OpenTurn: the turn that is open in a lane, and what was done in it: iterations and the time they
// took, against the turn's budget. Not thread-safe: the lane guards it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/time.h"
#include "lanes/state/event.h"
#include "lanes/state/iteration_sum.h"
#include "lanes/state/turn.h"

namespace laneway::service {

// What an iteration is to its job's declared total: a training step, or one of a graph beside it;
// and of those that count, whether its time says how long the next ones take.
enum class IterationKind : uint8_t { counted, uncounted, probe };

class OpenTurn {
 public:
  // The clock must outlive the turn.
  explicit OpenTurn(const Clock& clock) : clock_(clock) {}

  // Requires: no turn is open.
  void begin(const lanes::Turn& turn);
  bool is_open() const { return turn_.has_value(); }
  // Requires of all that follow, but looks_again: a turn is open.
  TurnId id() const { return turn_->id; }
  // Somebody waits for the lane: a turn with nothing left to do must be given back.
  bool is_bounded() const;
  // How long it may stay open with nothing to do all the same, and has had nothing to do.
  Duration lingers() const { return turn_->envelope.lingers; }
  Duration idle() const { return clock_.now() - worked_; }
  bool has_lingered() const { return lingers() <= Duration() || idle() >= lingers(); }
  // The time is asked only where the budget has a bound of time.
  bool budget_used() const;

  // When somebody must look again whether it has; nothing: nobody need. `busy`: it has work now.
  std::optional<Duration> looks_again(bool busy) const;

  // One more iteration was begun in the turn, or is complete.
  void count_iteration(IterationKind kind) {
    ++iterations_;
    if (kind == IterationKind::uncounted) ++uncounted_.count;
    if (kind == IterationKind::probe) ++probes_.count;
    worked_ = clock_.now();
  }
  // So long was the lane busy with one.
  void count_time(IterationKind kind, Duration took) {
    busy_ += took;
    if (kind == IterationKind::uncounted) uncounted_.busy += took;
    if (kind == IterationKind::probe) probes_.busy += took;
  }
  // The lane's iteration was held for so long: no part of the slice.
  void count_pause(Duration held) { start_ = start_ + held; }
  // An iteration was given up for a more urgent job.
  void count_abandoned() { ++abandoned_; }
  // The turn must end at the next boundary, and why does not matter: the core recalled it, its
  // budget was used up meanwhile, or an iteration taught something about memory.
  void end_soon() { to_end_ = true; }
  bool is_to_end() const { return to_end_; }

  uint64_t iterations() const { return iterations_; }
  Duration busy() const { return busy_; }
  const lanes::IterationSum& uncounted() const { return uncounted_; }
  // What count, but the probes.
  lanes::IterationSum measured() const {
    return {.count = iterations_ - uncounted_.count - probes_.count,
            .busy = busy_ - uncounted_.busy - probes_.busy};
  }
  // Closes the turn. The report says `budget` instead of `idle` where more is ready.
  lanes::TurnEnded end(lanes::TurnEnd why, bool more_ready, Bytes ephemeral);

 private:
  const Clock& clock_;
  std::optional<lanes::Turn> turn_;
  bool to_end_ = false;
  uint64_t iterations_ = 0;
  uint64_t abandoned_ = 0;
  Duration busy_;
  lanes::IterationSum uncounted_;
  lanes::IterationSum probes_;
  TimePoint start_;
  TimePoint worked_;  // the last time; before that, when it began
};

}  // namespace laneway::service
