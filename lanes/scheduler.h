// Scheduler: the core. It decides who is admitted, where images and regions lie and whose turn it
// is: handle(now, event) -> actions, next_wakeup(). Deterministic: no clock, thread, lock, file,
// environment or unordered iteration; given the same events (and times) it decides the same, in the
// service and in the simulator. Not thread-safe (lanes/core_loop.h is its front).
//
// What always holds, before any action is given out:
//  - sum of images + sum of regions + every other claim <= capacity; ranges do not overlap;
//  - a lane has at most one open turn, and its job has an image in the pool and fits the region;
//  - turns of jobs with different context keys are never open at the same time;
//  - regions change only while no turn is open in their lane.
//
// How an event is handled: on(event) changes state and marks what it touched; settle() then fits
// regions at turn boundaries, retries held and waiting jobs when memory or lanes changed, and gives
// the next turns. Everything that can free memory goes through the same settle(), so nobody waits
// for something that has happened already.
//
// Its parts: scheduler.cc (events, settle), scheduler_admission.cc, scheduler_regions.cc,
// scheduler_turns.cc, scheduler_restore.cc, scheduler_snapshot.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "lanes/action.h"
#include "lanes/context_turns.h"
#include "lanes/event.h"
#include "lanes/job.h"
#include "lanes/lane.h"
#include "lanes/pool_map.h"
#include "lanes/snapshot.h"
#include "policies/policy.h"
#include "policies/view.h"

namespace laneway::lanes {

struct SchedulerConfig {
  Bytes capacity;  // of the pool
  Bytes reserve;   // never given to jobs; smaller than the capacity
  int64_t alignment = limits::kHostAlignment;
  uint32_t max_lanes = limits::kMaxLanes;  // 1 … limits::kMaxLanes
  uint32_t max_jobs = limits::kMaxJobs;
  // Bound of a turn while others wait for the lane; not both 0, which would be none.
  TurnBudget budget{.iterations = 16, .slice = milliseconds(20)};
  // A bounded turn that is still open after twice its slice (or after this, when it has no slice)
  // is recalled: its job may have nothing to run.
  Duration patience = milliseconds(50);
};

class Scheduler {
 public:
  // The configuration must hold what is said at its fields.
  Scheduler(const SchedulerConfig& config, std::unique_ptr<policies::Policy> policy);

  // The actions, in the order in which they must be carried out; valid until the next call. Times
  // that go back are taken as the latest one seen.
  const std::vector<Action>& handle(TimePoint now, const Event& event);
  // When handle(now, TimerFired) is due; TimePoint::never() when nothing waits for time to pass.
  TimePoint next_wakeup() const;

  // From the next question on this policy answers.
  void set_policy(std::unique_ptr<policies::Policy> policy);

  Snapshot snapshot() const;
  const policies::View& view() const { return view_; }
  const PoolMap& pool() const { return pool_; }
  // Answers of the policy that were refused.
  uint64_t policy_faults() const { return policy_faults_; }

 private:
  // scheduler.cc: what happened.
  void on(const JobOffered& event);
  void on(const JobEnded& event);
  void on(const WorkReady& event);
  void on(const TurnEnded& event);
  void on(const NeedChanged& event);
  void on(const ImagePlaced& event);
  void on(const WorkerLost& event);
  void on(const CapacityChanged& event);
  void on(const TimerFired& event);
  void on(const WorkerReported& event);
  void settle();
  Job* find_job(JobId id);
  Job& job_of(JobId id);
  Lane& lane_of(LaneId id);
  // The job as offered, next in the order of arrival.
  Job new_job(const JobOffered& offer);
  void touch(Lane& lane);
  // Jobs asked to end: at once, or when their open turn is over.
  void end_job(Job& job, JobState end_state);
  // Takes the job out of everything and forgets it; `job` is gone afterwards.
  void forget_job(Job& job, JobState end_state);
  void refuse_for_good(Job& job);  // larger than the pool: failed, with the arithmetic
  JobStatus status_of(const Job& job) const;
  Reason make_reason(ReasonCode code, const Job& job) const;
  void memory_changed();

  // scheduler_restore.cc: a core made anew from a worker's report.
  void restore_region(const ReportedRegion& reported);
  void restore_job(const ReportedJob& reported);
  void restore_admitted(Job job, const ReportedJob& reported);
  void reopen_turn(Lane& lane, Job& job, TurnId turn);
  bool may_reopen(const Lane& lane, const ReportedJob& reported) const;
  void reject(const Job& job, const ReportedJob& reported, ReasonCode code);
  void settle_restored(Lane& lane);

  // scheduler_admission.cc: who gets in.
  void admit_waiting();
  bool admission_closed() const;
  policies::AdmitDecision ask_admit();
  bool admit_answer_ok(const policies::AdmitDecision& decision);
  ReasonCode try_admit(Job& job, const policies::AdmitDecision& decision);
  ReasonCode admit_to_new_lane(Job& job, LaneId lane);
  ReasonCode admit_to_lane(Job& job, Lane& lane);
  ReasonCode admit_to_some_lane(Job& job);
  LaneId closed_lane() const;
  void enter_lane(Job& job, Lane& lane);
  void tell_queue();

  // scheduler_regions.cc: where it lies and how large it is.
  void fit_region(Lane& lane);
  void fit_to_jobs(Lane& lane);
  void mark_held(Lane& lane);
  void set_need(Job& job, Bytes ephemeral);
  void retry_held();
  void close_lane(Lane& lane);
  Room resize_region(Lane& lane, Bytes size);
  void report_region(const Lane& lane);
  void apply_capacity();
  void make_room_below(Bytes limit);
  void refuse_too_large();
  void recall_unfitted();

  // scheduler_turns.cc: whose turn it is.
  void announce_work(Job& job);
  void try_grant(Lane& lane);
  JobId ask_pick(const Lane& lane, std::span<const policies::JobView* const> candidates);
  void grant(Lane& lane, Job& job);
  void recall(Lane& lane);
  void recall_unbounded();
  void switch_context();
  void grant_context(uint64_t key);
  void close_turn(Lane& lane);
  void account(Job& job, const TurnEnded& event);
  void become_resident(Job& job);

  static constexpr size_t kEndedRemembered = 32;  // enough for a status page

  SchedulerConfig config_;
  std::unique_ptr<policies::Policy> policy_;
  std::unique_ptr<policies::Policy> fallback_;
  PoolMap pool_;
  policies::View view_;
  std::map<JobId, Job> jobs_;
  std::vector<Lane> lanes_;           // slot i is lane i + 1
  std::vector<TurnId> open_turns_;    // by slot; none when no turn is open
  std::vector<TimePoint> deadlines_;  // by slot: of bounded turns, else never
  std::vector<LaneId> touched_;       // to look at in settle()
  std::vector<Action> actions_;
  ContextTurns contexts_;
  IdSource<RegionId> region_ids_;
  IdSource<TurnId> turn_ids_;
  uint64_t arrivals_ = 0;
  TimePoint now_;
  bool worker_up_ = true;
  bool memory_changed_ = false;  // somebody who found no room may find some now
  bool queue_changed_ = false;   // a waiting job came or went
  uint32_t held_jobs_ = 0;
  Bytes wanted_capacity_;  // what CapacityChanged asked for; equal to the pool's when done
  uint64_t policy_faults_ = 0;
  uint64_t ignored_events_ = 0;
  std::deque<JobStatus> ended_;
};

}  // namespace laneway::lanes
