#include "lanes/state/standing.h"

#include "lanes/state/core_state.h"

namespace laneway::lanes {
namespace {

// As the core decided, with the numbers of now.
Reason renewed(const CoreState& core, const Job& job) {
  return core.make_reason(job.reason.code, job);
}

// In its lane, with work, and no turn.
Reason waits_in_lane(const CoreState& core, const Job& job) {
  if (!core.worker_up) return core.make_reason(ReasonCode::worker_starting, job);
  const policies::LaneView& lane = *core.view.lane(job.view.lane);
  // Somebody of its own lane may run all the same: then that is what it waits for.
  const ReasonCode code = job.reason.code;
  const bool of_other_lanes =
      code == ReasonCode::context_conflict || code == ReasonCode::takes_turns;
  const bool conflict = of_other_lanes && !lane.running.valid();
  Reason reason = core.make_reason(conflict ? code : ReasonCode::waits_turn, job);
  reason.lane = job.view.lane;
  reason.behind = conflict ? job.reason.behind : lane.running;
  return reason;
}

// Not admitted, or away and wanted in.
Reason waits_for_memory(const CoreState& core, const Job& job) {
  if (!core.worker_up) return core.make_reason(ReasonCode::worker_starting, job);
  return renewed(core, job);
}

}  // namespace

Standing standing_of(const CoreState& core, const Job& job) {
  const bool works = job.work_announced;
  std::optional<TimePoint> since;
  if (works) since = job.work_since;
  if (job.quarantined) return {core.make_reason(ReasonCode::quarantined, job), since};
  switch (job.state()) {
    case JobState::waiting: return {waits_for_memory(core, job), job.view.offered_at};
    case JobState::away:
      // Its image was wanted, by nobody's iteration, and can't come back (exchange.h).
      if (!job.queued() && job.reason.code != ReasonCode::no_way_back) return {};
      return {waits_for_memory(core, job), since};
    case JobState::staged:
    case JobState::restoring:
    case JobState::evicting:
    case JobState::moving:
      if (!works) return {};
      return {core.make_reason(ReasonCode::copy_under_way, job), since};
    case JobState::held: return {renewed(core, job), since};
    case JobState::resident:
      if (!works) return {};
      return {waits_in_lane(core, job), since};
    case JobState::paused: return {core.make_reason(ReasonCode::paused, job), since};
    default: return {};
  }
}

}  // namespace laneway::lanes
