// Scheduler: the core. It decides which jobs are admitted, where images and regions lie and which
// job gets a turn: handle(now, events) -> actions, next_wakeup(). Deterministic: no clock, thread,
// lock, file, environment or unordered iteration; given the same events (and times) it decides the
// same, in the service and in the simulator. Not thread-safe (lanes/core/core_loop.h is its front).
//
// These invariants hold before any action is returned:
//  - sum of images + sum of regions + every other claim <= capacity; ranges do not overlap;
//  - a lane has at most one open turn, and its job has an image in the pool and fits the region;
//  - turns of jobs with different context keys are never open at the same time;
//  - regions change only while no turn is open in their lane.
//
// How the events of an instant are handled: on(event) changes state, and the owner of what changed
// notes that (changes.h), for each of them; settle() then, once, fits regions at turn boundaries,
// retries held and waiting jobs when something may give them room, and gives the next turns. So
// whoever gets a turn was chosen among all who were there at that instant, in whatever order their
// messages came. Every change that can free memory goes through the same settle(), so no job waits
// for something that has happened already.
//
// Its parts, each over the same CoreState: turn_control (turns), job_exit (the end of jobs),
// region_control (places and sizes of regions), lane_changes, lane_trials, admission, eviction
// (images leave the pool), restore (a core rebuilt from a report), checked_policy, core_check (the
// invariants). This class has the handlers of events, and settle().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "lanes/core/admission.h"
#include "lanes/core/advisory.h"
#include "lanes/core/job_exit.h"
#include "lanes/core/region_control.h"
#include "lanes/core/restore.h"
#include "lanes/images/eviction.h"
#include "lanes/images/image_moves.h"
#include "lanes/images/pool_size.h"
#include "lanes/images/save_ahead.h"
#include "lanes/state/action.h"
#include "lanes/state/changes.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/state/event.h"
#include "lanes/state/snapshot.h"
#include "lanes/turns/lane_changes.h"
#include "lanes/turns/lane_trials.h"
#include "lanes/turns/turn_control.h"
#include "policies/policy.h"
#include "policies/view.h"

namespace laneway::lanes {

class Scheduler {
 public:
  // Requires: `config` is within the bounds at its fields; `policy` is not null.
  Scheduler(const SchedulerConfig& config, std::unique_ptr<policies::Policy> policy);
  Scheduler(const Scheduler&) = delete;  // its parts refer to each other
  Scheduler& operator=(const Scheduler&) = delete;

  // Takes the events of one instant, in the order in which they came. Returns the actions, in the
  // order in which they must be carried out; valid until the next call. A time before the latest
  // one counts as the latest one.
  const std::vector<Action>& handle(TimePoint now, std::span<const Event> events);
  const std::vector<Action>& handle(TimePoint now, const Event& event) {
    return handle(now, std::span(&event, 1));
  }
  // For checkers: looks at everything as if it had changed, at the instant of the last events.
  // Returns what goes on then, and should have without; valid until the next call.
  const std::vector<Action>& look_again();
  // For tests: what changes of this kind is not noted from now on.
  void lose(Changed what) { core_.changes.lose(what); }
  // The time at which handle(now, TimerFired) is due; TimePoint::never() when nothing waits for a
  // time.
  TimePoint next_wakeup() const;

  // `policy` answers from the next question on, which is asked with the next event: turns that have
  // a bound, which is the old policy's, end soon.
  void set_policy(std::unique_ptr<policies::Policy> policy);

  // Whether CapacityChanged would leave every job what it needs: see pool_size.h.
  Status may_resize(Bytes capacity) const { return lanes::may_resize(core_, capacity); }
  Snapshot snapshot() const;
  const policies::View& view() const { return core_.view; }
  const Counters& counters() const { return core_.counters; }
  const PoolMap& pool() const { return core_.pool; }
  const LaneLimit& lane_limit() const { return core_.lane_limit; }
  // How many answers of the policy were refused.
  uint64_t policy_faults() const { return policy_.faults(); }

 private:
  void on(const JobOffered& event);
  void on(const JobEnded& event);
  void on(const WorkReady& event) {
    if (Job* job = known_job(event.job)) turns_.announce_work(*job);
  }
  void on(const TurnEnded& event);
  void on(const TurnPaused& event);
  void on(const TurnResumed& event);
  void on(const NeedChanged& event) {
    if (Job* job = known_job(event.job)) regions_.set_need(*job, event.ephemeral);
  }
  void on(const TimeLearnt& event);
  void on(const ImagePlaced& event);
  void on(const JobReleased& event);
  void on(const ImageLeft& event);
  void on(const CopyFailed& event);
  void on(const ImageSaved& event);
  void on(const ImageDirty& event);
  void on(const PrefixWanted& event) {
    if (Job* job = known_job(event.job)) job->prefix_wanted = event.bytes;
  }
  void on(const ResidencyWanted& event);
  void on(const JobChanged& event);
  void on(const WorkerLost& event);
  void on(const CapacityChanged& event);
  void on(const TimerFired& event);
  void on(const Advice& event);
  void on(const AdviserChanged& event);
  void on(const WorkerReported& event) {
    restore_.take_over(event.report);
    save_ahead_.look_soon();
  }
  // Another job may be the right one to run now, or to be admitted.
  void rank_changed(const Job& job);
  // The job; when there is none, counts an ignored event and returns nullptr.
  Job* known_job(JobId id);
  // Its image is in the pool, and no turn of it is open.
  void rest(Job& job);
  // Its image, which was moving, is where it was to go, or still where it was.
  void move_ended(Job& job, bool moved);
  void retry_those_who_wait();
  void ask_about_work_in_front(const Job& job);
  // Everything that may go on goes on.
  void settle_once();
  void settle();
  // Nobody can leave for a job that is away, nor will.
  bool refuse_stuck();
  // What the events touched, or now and then everything.
  void check(std::span<const Event> events);

  CoreState core_;
  CheckedPolicy policy_;
  TurnControl turns_{core_, policy_};
  JobExit exit_{core_, policy_, turns_};
  Eviction eviction_{core_, policy_, turns_};
  ImageMoves moves_{core_, turns_};
  SaveAhead save_ahead_{core_, turns_};
  LaneChanges changes_{core_, policy_, turns_};
  LaneTrials trials_{core_, policy_, turns_};
  Exchange exchange_{core_, policy_, exit_};
  RegionControl regions_{core_, turns_, exit_, moves_, eviction_, changes_};
  Admission admission_{core_, policy_, turns_, regions_, moves_, eviction_, changes_, exchange_};
  Advisory advisory_{core_, policy_, turns_};
  Restore restore_{core_, policy_, turns_, exit_, regions_, exchange_};
  uint64_t events_ = 0;
  bool policy_changed_ = false;
};

}  // namespace laneway::lanes
