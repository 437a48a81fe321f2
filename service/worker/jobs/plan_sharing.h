// plan_sharing: what one job's iteration teaches about a graph's memory is known to the equal
// graphs of the same user's other jobs, also of those that wait for memory: they need no more than
// the plan, and none of their iterations is a probe. So is what an iteration takes.
#pragma once

#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_jobs.h"
#include "service/worker/run/iteration.h"

namespace laneway::service {

// Must be called before the result is applied to the graph's plan. Requires: the job runs, and the
// worker's mutex is not held.
void share_plan(WorkerContext& context, WorkerJobs& jobs, const WorkerJob& job,
                const WorkerGraph& graph, const IterationResult& result);

// … and what its last iteration took whose memory was planned: by that a policy ranks those that
// have done none. Told when one ends, as of the one before, after 1, 2, 4, 8, … of them. Requires:
// as above.
void share_time(WorkerContext& context, WorkerJobs& jobs, const WorkerJob& job, WorkerGraph& graph);

// Successors: the plans that a predecessor kept for some of these jobs are those of equal graphs
// too. Requires: none of the jobs runs.
void share_restored_plans(WorkerJobs& jobs) LW_REQUIRES(kBookkeeping);

}  // namespace laneway::service
