// JobLane: what the rest of the worker asks of the lane in which a job's turn is open
// (WorkerJob::lane). LaneHost is what a lane asks of the rest.
#pragma once

#include <optional>
#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "lanes/run/graph_runner.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/link.h"

namespace laneway::service {

struct WorkerGraph;
struct WorkerJob;

class JobLane {
 public:
  // All of these with the worker's mutex held.
  // Requires: a turn is open.
  virtual TurnId turn() const LW_REQUIRES(kBookkeeping) = 0;
  // Work is under way in the lane, or in flight.
  virtual bool is_busy() const LW_REQUIRES(kBookkeeping) = 0;
  // An iteration of its turn is held for a more urgent one; it is given up with its job.
  virtual bool is_paused() const LW_REQUIRES(kBookkeeping) = 0;
  virtual void give_up_paused() LW_REQUIRES(kBookkeeping) = 0;
  // Something that the thread may have waited for is there: work, or the end of what ran.
  virtual void work_arrived() LW_REQUIRES(kBookkeeping) = 0;
  // Somebody waits for the job: what is in flight is retired now.
  virtual void retire_soon() LW_REQUIRES(kBookkeeping) = 0;
  // A link joined or leaves the job whose turn is open.
  virtual void link_added(const Link& link) LW_REQUIRES(kBookkeeping) = 0;
  virtual void link_dropped(const Link& link) LW_REQUIRES(kBookkeeping) = 0;

  // Takes lane and job for one iteration on the calling thread, which must call run_now next.
  // False: the job's turn is not open, something runs or is queued, or the graph does not fit the
  // lane, or others may interrupt it, because the thread could hear of nothing while it is held.
  virtual bool begin_now(WorkerJob& job, const WorkerGraph& graph) LW_REQUIRES(kBookkeeping) = 0;
  // Without the mutex. Nothing when the iteration did not fit: it must be submitted.
  virtual std::optional<Status> run_now(WorkerJob& job, WorkerGraph& graph,
                                        std::span<const lanes::InputView> inputs,
                                        std::span<const lanes::OutputView> outputs) = 0;

 protected:
  ~JobLane() = default;
};

}  // namespace laneway::service
