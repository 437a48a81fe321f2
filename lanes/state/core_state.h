// CoreState: the state that the parts of the core share: jobs, lanes, the pool, the view that
// policies see, and the actions of the event that is being handled. Plain data with look-ups; each
// part (turn_control, job_exit, region_control, admission, restore) changes it by its own rules,
// and core_check.h has the invariants between two events. Belongs to one Scheduler; not
// thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "lanes/pool/outside_map.h"
#include "lanes/pool/pool_map.h"
#include "lanes/state/action.h"
#include "lanes/state/changes.h"
#include "lanes/state/counters.h"
#include "lanes/state/job.h"
#include "lanes/state/job_offered.h"
#include "lanes/state/job_table.h"
#include "lanes/state/lane.h"
#include "lanes/state/lane_limit.h"
#include "lanes/state/region_order.h"
#include "lanes/state/snapshot.h"
#include "policies/view.h"

namespace laneway::lanes {

struct SchedulerConfig {
  Bytes capacity;  // of the pool
  // To which it shrinks at once, as by CapacityChanged, but for what a worker's report says of the
  // bytes behind; 0: it does not.
  Bytes wanted_capacity;
  Bytes reserve;  // never given to jobs; must be smaller than the capacity
  Bytes store;    // capacities of the tiers outside of the pool; 0: there is none
  Bytes spill;
  int64_t alignment = limits::kHostAlignment;
  uint32_t max_lanes = limits::kMaxLanes;  // 1 … limits::kMaxLanes
  uint32_t max_jobs = limits::kMaxJobs;
  // Bound of a turn while others wait for the lane and the policy names none; one of the two must
  // be a bound.
  TurnBudget budget{.iterations = 16, .slice = milliseconds(20)};
  // Policies cannot name a longer one.
  Duration longest_slice = seconds(60);
  // A bounded turn that is still open so long behind its slice, and twice the slice after it began
  // at the latest, is recalled: its job may have nothing to run.
  Duration patience = milliseconds(50);
  // An image that moved inside the pool, or whose lane was grown for it, is left alone for so long.
  Duration left_alone = milliseconds(500);
  // So long does a turn that nobody wants the lane of last without work, while somebody wants
  // memory.
  Duration lingers = milliseconds(20);
  // A job without work for so long is copied out ahead of need.
  Duration idle_before_saving = seconds(1);
  // For whoever has waited in the queue for so long lanes become one, if no image can leave for
  // him and that makes room: down to `keep_lanes` of them, as many as compute faster beside each
  // other than in turns, and after merge_all_after down to one.
  Duration merge_after = seconds(2);
  Duration merge_all_after = seconds(30);
  uint32_t keep_lanes = 1;
  LaneLimitRules lane_limit;
  // The whole state is checked after this number of events (core_check.h); after each event the
  // lanes that it touched, whoever runs there, and the job that it is about.
  uint32_t check_every = 1024;

  // At most `asked` lanes; 0: as many as pay by measure, at first as many as there are processors.
  void set_lanes(uint32_t asked, uint32_t processors);
};

struct CoreState {
  explicit CoreState(const SchedulerConfig& wanted);

  // The job, or nullptr when there is no such job.
  Job* find_job(JobId id);
  // Requires: the job exists.
  Job& job_of(JobId id);
  const Job& job_of(JobId id) const;
  // Requires: `id` is 1 … config.max_lanes.
  Lane& lane_of(LaneId id);
  // Makes a job of the offer, next in the order of arrival; it is not in `jobs` yet.
  Job new_job(const JobOffered& offer);
  // Its image is outside and is wanted in the pool: it waits, behind all who wait now.
  void enqueue(Job& job);
  // It stands among those that want to be admitted, by its place there; and does no more.
  void join_queue(Job& job);
  void quit_queue(Job& job);
  // The job is in that lane from now on; and in none.
  void enter_lane(Job& job, Lane& lane);
  void quit_lane(Job& job);
  // It has no turn to come in its lane, though it has work.
  void set_unready(Job& job);
  LaneSet all_lanes() const { return ~LaneSet{0} >> (64 - lanes.size()); }
  // Whether a job of the lane, but for those of `gone` (ascending), needs its region whole.
  bool needs_region(Lane& lane, std::span<const JobId> gone = {});
  // Must be called when the lane's region has another size.
  void forget_needs(Lane& lane);
  // … or another place: the worker is told.
  void report_region(Lane& lane);
  // Marks the lane: settle() looks at it when the event has been handled. Must be called when its
  // jobs or their needs are others.
  void touch(Lane& lane);
  // … when its jobs and their needs are the same, but whose turn it is, or their order, is not.
  void note_order(Lane& lane);
  // Touches it, and its region is fitted to its jobs when no turn is open.
  void want_fit(Lane& lane);
  // Whether something has changed that may give room to those who wait.
  bool may_give_room() const { return changes.may_give_room() || pool.freed(); }
  // The same, once.
  bool take_room();
  // Must be called when the pool has another capacity.
  void show_pool();
  // Who waits is tried again at that time. Of each kind of wait the earliest holds.
  enum class Wait : uint8_t { admission, eviction, move, merge };
  void retry_by(Wait wait, TimePoint time) {
    TimePoint& at = retry_at[static_cast<size_t>(wait)];
    at = std::min(at, time);
  }
  TimePoint retries_at(Wait wait) const { return retry_at[static_cast<size_t>(wait)]; }
  // Images leave or move then, perhaps.
  bool leaves_or_moves_later() const {
    return std::min(retries_at(Wait::eviction), retries_at(Wait::move)) != TimePoint::never();
  }
  void on_timer();
  // Must be called when room outside was taken: those who wait may find no home any more, and wait
  // aside then. (A note of OutsideMap would come from each try to admit one of them as well.)
  void outside_taken();
  uint32_t held_jobs() const { return jobs.count_in(JobState::held); }
  uint32_t moving_jobs() const { return jobs.count_in(JobState::moving); }
  // Whether somebody waits for memory: then whoever has nothing to run must be known.
  bool memory_wanted() const { return !view.waiting().empty() || held_jobs() > 0; }
  // Whether lanes may take memory so that work waits less: nobody waits for it, and the pool is as
  // large as it is to be.
  bool memory_to_spare() const { return !memory_wanted() && wanted_capacity == pool.capacity(); }
  // Whether no job may be admitted: admitted jobs come first, so admission is closed while one of
  // them is held for memory, and while the pool must shrink.
  bool admission_closed() const;
  Reason make_reason(ReasonCode code, const Job& job) const;
  static bool is_admitted(const Job& job) {
    return job.view.lane.valid() || job.state() == JobState::away;
  }
  // Whether its image has no place outside of the pool to which it could always leave.
  bool is_homeless(const Job& job) const {
    return is_admitted(job) && outside.exists() && outside.home_of(job.view.id).tier == Tier::none;
  }
  JobStatus status_of(const Job& job) const;
  // What the images of homeless jobs take in the pool.
  Bytes staying() const;

  SchedulerConfig config;
  PoolMap pool;
  OutsideMap outside;
  policies::View view;
  Changes changes;
  std::array<TimePoint, 4> retry_at;  // by Wait
  JobTable jobs{changes};
  std::vector<Lane> lanes;     // slot i is lane i + 1
  LaneSet regions_needed = 0;  // those with a Lane::needs_region
  LaneLimit lane_limit;
  RegionOrder region_order;
  std::vector<JobId> to_tell;  // that began to wait, or were tried, and may have another reason now
  std::vector<LaneId> touched;  // lanes that settle() looks at when the event has been handled
  std::vector<Action> actions;
  IdSource<RegionId> region_ids;
  uint64_t arrivals = 0;
  TimePoint now;
  bool worker_up = true;
  bool work_is_kept_waiting = false;  // some lane keeps work waiting that another could do
  // How often regions may still slide before the event has been handled: jobs with different wishes
  // could move them to and fro for ever.
  uint32_t slides_left = 0;
  std::vector<JobId> leaving;  // whose image leaves, or will at the end of a turn
  std::vector<JobId> coming;   // whose copy outside is on its way into the pool
  uint32_t saving_jobs = 0;    // whose image is copied out ahead of need
  uint32_t homeless_jobs = 0;  // see is_homeless
  uint32_t jobs_aside = 0;     // that wait, and not in the queue
  Bytes wanted_capacity;       // as CapacityChanged asked; equal to the pool's capacity when done
  uint64_t ignored_events = 0;
  Counters counters;
  std::deque<JobStatus> ended;  // the last few, for status
};

}  // namespace laneway::lanes
