// Exchange: no admitted job waits for ever for room that idle jobs hold. Where there is a tier
// outside of the pool, every job that is admitted gets a home there (outside_map.h), so that it can
// always leave, whatever else lies outside. One for which no home is left is admitted only if all
// jobs with a home still find room beside it when all others have left, because it stays where it
// is until a home is free. Else it waits aside, behind whom nobody waits, until a job ends; or it
// is refused, if no training's end would help, because who serves may never end. The proof is in
// docs/design/residency.md. Part of the core; not thread-safe.
#pragma once

#include <vector>

#include "base/ids.h"
#include "lanes/core/job_exit.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"

namespace laneway::lanes {

class Exchange {
 public:
  // All arguments must outlive the object.
  Exchange(CoreState& core, CheckedPolicy& policy, JobExit& exit)
      : core_(core), policy_(policy), exit_(exit) {}

  // Gives a home to a job that is about to be admitted, if there is one: other jobs' copies that do
  // not lie at home make room, or become homes. Returns whether all jobs could change places if it
  // were admitted somewhere. `may_share`: it may enter a lane of others.
  bool prepare(const Job& job, bool may_share);
  // It was not admitted.
  void give_back(const Job& job);
  // The same when it was admitted to that lane, as far as the pool's map is concerned.
  bool holds_with(const Job& job, LaneId lane, bool may_share) const;
  // It can't be admitted: it waits aside, or is refused and `job` destroyed.
  void turn_down(Job& job, bool may_share);
  // A job has ended or has other needs, or the pool another size: homes that are free are given,
  // and who waits aside is tried again.
  void changed();
  // A core was restored from a report: copies become homes where they lie, and the others get
  // homes, the largest image first.
  void settle_restored();
  // Everything is at rest, no timer is set, and a job that is away has work and could not come in
  // even if all others that can leave had left (a need has grown, or a report left too few homes):
  // its iterations are refused, and its state is kept. Returns whether that happened.
  bool refuse_stuck();

 private:
  struct Case;  // what would be
  bool all_find_room(const Case& what) const;
  bool stays(const Case& what, const Job& job) const;
  bool give_home(const Job& job);
  // Copies that do not lie at home, of images that are in the pool, are given up for it.
  bool give_home_for_copies(const Job& job);
  // The places of such copies become homes, and the homes that their jobs had are free.
  bool give_home_by_swaps(const Job& job);
  bool would_help_to_wait(const Job& job, bool may_share) const;

  CoreState& core_;
  CheckedPolicy& policy_;
  JobExit& exit_;
  bool gave_up_ = false;  // somebody was told that it finds no way back
};

}  // namespace laneway::lanes
