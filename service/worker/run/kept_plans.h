// KeptPlans: the plans of graphs in the recovery memory, where they outlive the worker: a successor
// does not probe again, which would need more memory than the lane had. Without such a memory, or
// when it has no room, graphs run as well, and a successor probes. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>

#include "base/ids.h"
#include "service/journal/recovery_memory.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/plan_cache.h"
#include "service/worker/run/plan_record.h"
#include "service/worker/run/worker_graph.h"

namespace laneway::service {

class KeptPlans {
 public:
  // `memory` may be null. Both must outlive the object.
  KeptPlans(RecoveryMemory* memory, PlanCache& cache) : memory_(memory), cache_(cache) {}

  // Keeps what the iteration taught about the graph's memory, in place of what was known before;
  // when it taught nothing, the plan of an equal graph that the graph began with, once. Says once
  // when there is no room. Requires: the job runs, and the caller does not hold the worker's mutex.
  void keep(JobId job, WorkerGraph& graph, const IterationResult& result);
  // The graph is not the job's any more.
  void drop(JobId job, WorkerGraph& graph);
  // The job is over. Requires: nothing of it runs.
  void drop_all(JobId job);

  // Gives the graph the plan that a predecessor kept for it. False, and nothing changes, when there
  // is none that fits it. Requires: the worker's mutex is held, as for any change of a plan.
  bool restore(JobId job, WorkerGraph& graph) const;
  // Releases what a predecessor kept for jobs that are over.
  void retain(const std::set<JobId>& jobs);

 private:
  void write(JobId job, WorkerGraph& graph, const PlanRecord& record);

  RecoveryMemory* const memory_;
  PlanCache& cache_;
  std::atomic<bool> no_room_{false};  // it was said
};

}  // namespace laneway::service
