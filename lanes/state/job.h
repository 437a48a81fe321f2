// Job: the core's record of one job, and the state machine of jobs. `laneway status` shows the
// states. Plain data plus a pure function; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/job_changes.h"
#include "base/result.h"
#include "lanes/state/changes.h"
#include "lanes/state/image_life.h"
#include "lanes/state/learnt.h"
#include "lanes/state/reason.h"
#include "policies/view.h"

namespace laneway::lanes {

enum class JobState : uint8_t {
  waiting,      // not admitted: its reason says why
  staged,       // admitted; its image is being placed in the pool
  resident,     // its image is in the pool; it runs when it has work and is picked
  running,      // a turn is open
  paused,       // its turn is open, and its iteration held for a more urgent one's
  held,         // resident, but its lane's region is too small for it until memory is free
  evicting,     // its image is leaving the pool
  away,         // its image is outside of the pool only
  restoring,    // admitted again; its image is coming back
  moving,       // its image is moving inside the pool
  quarantined,  // resident, but none of its iterations is run: it brought its worker down twice
  finished,     // closed by its client
  failed,       // an iteration failed, or it can never fit
  cancelled,    // killed, or its client died
};
inline constexpr size_t kJobStateCount = 14;

const char* job_state_name(JobState state);

// The table of the state machine.
bool job_transition_allowed(JobState from, JobState to);

// What the jobs of a table have in common: how many are in each state, and where they note what
// changed.
struct JobTally {
  Changes& changes;
  std::array<uint32_t, kJobStateCount> in_state{};
};

// What the view begins with lies in one line of the cache, and what is asked of most jobs besides
// it in the one behind the view.
struct alignas(64) Job {
  policies::JobView view;  // identity, sizes, progress, as policies see them

  Bytes image_offset;  // where its image is in the pool, or was the last time
  // The region that the iteration at the head of its queue must have, once it was found not to fit;
  // 0: nothing is known to be in its way. At most view.ephemeral, which is the need of the largest
  // of its graphs.
  Bytes must;
  TimePoint leave_no_sooner;  // after a copy that failed, or after it was held
  TimePoint work_since;       // see work_announced; or since its last turn ended

  JobState state() const { return state_; }
  // What its lane's region must have for it once it may run.
  Bytes need() const { return quarantined ? need_when_released : view.ephemeral; }
  // Requires: it has no turn.
  void quarantine();
  void release();
  // What it needs of its lane's region from now on.
  void set_need(Bytes ephemeral);
  // It ends when its turn has ended.
  void end_later(JobState state);
  void change(const JobChanges& changes);
  void learn_iteration_time(Duration time);
  // Its state with its image in the pool, no turn, and room enough in its lane.
  JobState at_rest() const { return quarantined ? JobState::quarantined : JobState::resident; }
  // Whether it stands in the queue of those that want to be admitted: a job that is away does when
  // it has work, or its client wants it in; else it waits for nothing.
  bool queued() const {
    return (state_ == JobState::waiting && !aside) ||
           (state_ == JobState::away && (work_announced || wanted_in));
  }
  // Requires: the transition is allowed; another one is a bug of the core.
  void move_to(JobState state);

 private:
  friend class JobTable;
  void note(Changed what) {
    if (tally_ != nullptr) tally_->changes.note(what);
  }

  JobTally* tally_ = nullptr;  // of its table; none: it is in no table yet
  JobState state_ = JobState::waiting;

 public:
  // True when work was announced and no turn was opened for it yet. While a turn is open the worker
  // may have taken the work already; a turn without work does no harm, a lost announcement would.
  bool work_announced = false;
  // Its iterations are answered with an error until it is released, so it needs no room in its
  // region: `need_when_released` is what it will need.
  bool quarantined = false;
  // True when its end was requested while a turn was open; it ends when the turn has ended.
  bool ending = false;
  // Its last turn did nothing: its wait for an iteration goes on.
  bool unserved = false;
  bool aside = false;       // it waits, and not in the queue: nobody waits behind it (exchange.h)
  bool pinned = false;      // its client wants its image in the pool
  bool wanted_in = false;   // … once, while it is away
  bool wanted_out = false;  // … out of it, while it was on its way in
  // It left because its client wanted it out. It may come back for work that was announced twice:
  // then a turn that finds nothing to run sends it out again.
  bool unloaded = false;
  // It was admitted because it was overdue (policies/common_rules.h): not even a more urgent one
  // makes it leave before its stay is over.
  bool was_overdue = false;
  ImageLife image;
  JobState end_state = JobState::finished;
  ReasonCode told = ReasonCode::none;  // as the last QueueJob had it
  TimePoint admitted_at;               // the last time
  TimePoint leaving_since;             // while its image is on its way out
  JobId leaves_for;                    // who gets the room; none: nobody in particular
  JobId left_for;                      // … the last time

  Bytes need_when_released;
  Bytes prefix_wanted;  // what should stay of its image when it leaves
  // How often and how long iterations were held; and, while paused, since when.
  uint64_t pauses = 0;
  Duration paused;
  uint64_t abandoned = 0;  // iterations that were given up for more urgent jobs
  TimePoint paused_since;
  Learnt learnt;             // as the last KeepLearnt had it
  TimePoint save_no_sooner;  // after a copy ahead that failed, or was stopped
  TimePoint move_no_sooner;  // after its image moved, or could not

  Reason reason;  // why it waits or is held; code none otherwise
  // When the first turn with iterations began, and when the last one did its last. Not known of
  // iterations that ran under another core.
  std::optional<TimePoint> first_iteration;
  std::optional<TimePoint> last_iteration;
};

}  // namespace laneway::lanes
