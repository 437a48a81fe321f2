// A job's snapshot and the iterations since, in the recovery memory: taken at boundaries, and
// turned into the job's state again. All of these need WorkerJob::running.
#pragma once

#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/run/graph_runner.h"
#include "service/worker/common/lane_noting.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/lane_executor.h"

namespace laneway::service {

// The image as it is now, before the journal's present request, becomes the snapshot; the log of
// iterations begins anew, with room for some that take `entry` each, as many as memory is left for.
// A job whose image dies with the worker has its former snapshot until the new one is whole.
// out_of_memory when there is no room for one; device_lost.
Status take_snapshot(WorkerContext& context, WorkerJob& job, Bytes entry);
// A new image: where it dies with the worker, it is kept before anybody relies on it.
void keep_placed_image(WorkerContext& context, WorkerJob& job);
// The job runs on, and a worker that dies while it writes the job's state costs the job: `why`.
void keep_nothing(WorkerContext& context, WorkerJob& job, const std::string& why);
// The snapshot is of no further use: something else than an iteration changed the state, or what
// it needs goes. Where the image dies with the worker a new one is taken.
Status renew_snapshot(WorkerContext& context, WorkerJob& job);
// Its memory goes back.
void drop_snapshot(WorkerJob& job);

// What the iteration takes in the log, and whether it must have a new snapshot first.
Bytes log_room_of(const WorkerJob& job, const WorkerGraph& graph,
                  std::span<const lanes::InputView> inputs);
bool snapshot_is_due(const WorkerJob& job, Bytes entry);
// The iteration is complete, and the journal does not say so yet.
void log_iteration(WorkerJob& job, const WorkerGraph& graph,
                   std::span<const lanes::InputView> inputs);

// Restores the snapshot and runs the iterations since again, then the journal says that the
// present request left no trace. completed; or how the iteration of the graph `at` ended, after
// which it must be begun again. `noting` gets each node. Requires: the job has a snapshot.
IterationResult restore_snapshot(WorkerContext& context, WorkerJob& job, LaneExecutor& executor,
                                 GraphHandle& at, LaneNoting& noting);

}  // namespace laneway::service
