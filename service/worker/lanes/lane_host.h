// LaneHost: what a lane asks of the worker that it belongs to: what concerns other jobs, other
// lanes, or the device as a whole. The functions without LW_REQUIRES are called with the worker's
// mutex not held.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "lanes/state/event.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/work.h"

namespace laneway::service {

class WorkerLane;

class LaneHost {
 public:
  virtual ~LaneHost() = default;

  // Whether the device's work of the job's iterations may be replayed as a whole.
  virtual bool may_replay(const WorkerJob& job) const LW_REQUIRES(kBookkeeping) = 0;
  // Jobs of several users have been here: regions must be cleared between them.
  virtual bool many_users() const LW_REQUIRES(kBookkeeping) = 0;

  // The job has no turn any more: its links are watched, unless one has a request already, which
  // is what true means. Or a turn begins, whose lane looks for requests itself.
  virtual bool watch_links(WorkerJob& job) LW_REQUIRES(kBookkeeping) = 0;
  virtual void unwatch_links(WorkerJob& job) LW_REQUIRES(kBookkeeping) = 0;

  // Trials of suspects (suspect_trials.h): whether the lane may begin the next work of its job.
  virtual bool may_begin(const WorkerLane& lane, const WorkerJob& job) const
      LW_REQUIRES(kBookkeeping) = 0;
  // The turn of a suspect is open in an idle lane.
  virtual void seek_trial(const WorkerJob& suspect) LW_REQUIRES(kBookkeeping) = 0;
  virtual void end_trial(const WorkerJob& job) LW_REQUIRES(kBookkeeping) = 0;
  // Nothing of the job is under way any more.
  virtual void work_ended(const WorkerJob& job) LW_REQUIRES(kBookkeeping) = 0;

  // The device failed for good while the job ran that graph ("": its bytes were copied). Returns
  // the job's error. The core hears of other jobs by tell_of_lost_jobs, which must be called when
  // nothing runs any more.
  virtual Error device_failed(const Error& what, WorkerJob& job, const std::string& graph) = 0;
  virtual void tell_of_lost_jobs() = 0;
  // Plans what an iteration taught about its graph's memory, keeps it for a successor, and shares
  // it with equal graphs. The result is not applied yet.
  virtual void learn(const WorkerJob& job, WorkerGraph& graph, IterationResult& result) = 0;
  // Posts the end of a turn.
  virtual void tell_turn_ended(const lanes::TurnEnded& ended) = 0;
  // An iteration of that graph failed: device_failed's error, if the device did, which is asked.
  virtual std::optional<Error> device_error_behind(const Error& what, WorkerJob& job,
                                                   const std::string& graph) = 0;
  // Does what the work does to the job's state. Requires: the caller has set WorkerJob::running.
  virtual Status access_now(WorkerJob& job, Work& work) = 0;
};

}  // namespace laneway::service
