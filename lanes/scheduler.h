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
// Its parts, each over the same CoreState: turn_control (whose turn it is), job_exit (how jobs
// leave), region_control (where regions lie), admission (who gets in), restore (a core made anew
// from a report), checked_policy, core_check (what must hold between two events). Here: what an
// event means, and settle().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "lanes/action.h"
#include "lanes/admission.h"
#include "lanes/checked_policy.h"
#include "lanes/core_state.h"
#include "lanes/event.h"
#include "lanes/job_exit.h"
#include "lanes/region_control.h"
#include "lanes/restore.h"
#include "lanes/snapshot.h"
#include "lanes/turn_control.h"
#include "policies/policy.h"
#include "policies/view.h"

namespace laneway::lanes {

class Scheduler {
 public:
  // The configuration must keep the bounds that stand at its fields; the policy must not be null.
  Scheduler(const SchedulerConfig& config, std::unique_ptr<policies::Policy> policy);
  Scheduler(const Scheduler&) = delete;  // its parts refer to each other
  Scheduler& operator=(const Scheduler&) = delete;

  // The actions, in the order in which they must be carried out; valid until the next call. Times
  // that go back are taken as the latest one seen.
  const std::vector<Action>& handle(TimePoint now, const Event& event);
  // When handle(now, TimerFired) is due; TimePoint::never() when nothing waits for time to pass.
  TimePoint next_wakeup() const;

  // From the next question on this policy answers.
  void set_policy(std::unique_ptr<policies::Policy> policy);

  Snapshot snapshot() const;
  const policies::View& view() const { return core_.view; }
  const PoolMap& pool() const { return core_.pool; }
  // Answers of the policy that were refused.
  uint64_t policy_faults() const { return policy_.faults(); }

 private:
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
  // Nullptr, and an ignored event is counted, when there is no such job.
  Job* known_job(JobId id);
  void become_resident(Job& job);
  void account(Job& job, const TurnEnded& event);
  void settle();
  void check();

  CoreState core_;
  CheckedPolicy policy_;
  TurnControl turns_{core_, policy_};
  JobExit exit_{core_, turns_};
  RegionControl regions_{core_, turns_, exit_};
  Admission admission_{core_, policy_, turns_, regions_};
  Restore restore_{core_, turns_, exit_, regions_};
  uint64_t events_ = 0;
};

}  // namespace laneway::lanes
