// What follows an iteration that a lane ran: its state is kept or given up, its client is answered,
// and a trace hears of it. Everything that needs no bookkeeping of the lane's.
#pragma once

#include <optional>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/lanes/enqueued_queue.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/work.h"
#include "service/worker/run/worker_graph.h"
#include "service/worker/state/state_guard.h"

namespace laneway::service {

struct RunIteration {
  WorkerJob& job;
  WorkerGraph& graph;
  Work& work;
  LaneId lane;
};

struct IterationTimes {
  TimePoint start;
  Duration took;  // without the time for which it was held
  Duration held;
  StateGuard::Measured measured;
};

// The work is complete unless it is run again, or uses no job. Requires: the caller has set the
// lane's `busy` and WorkerJob::running.
void answer(WorkerContext& context, StateGuard& guard, const RunIteration& run,
            IterationResult& result, const IterationTimes& times);

// The same of an iteration that was in flight and has retired; one that failed there ends its job
// with `crash`.
void answer_retired(WorkerContext& context, StateGuard& guard, const RunIteration& run,
                    const EnqueuedQueue::Retired& retired, const std::optional<Error>& crash);

}  // namespace laneway::service
