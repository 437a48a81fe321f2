// What a log in the recovery memory has of a job's former bytes, put back: of an iteration that
// died behind its first write, and of a client's write of the state that died. All of these need
// WorkerJob::running, or that nothing runs yet.
#pragma once

#include "base/ids.h"
#include "base/result.h"
#include "service/journal/recovery_memory.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"

namespace laneway::service {

// The request died in its commit phase: true, and the state is as before it, when a log has its
// former bytes.
bool undo(WorkerContext& context, WorkerJob& job);
// A state write died, and its client is gone: the same.
bool undo_write(WorkerContext& context, WorkerJob& job);
// Where the former bytes of a state write lie.
PieceKey write_log_of(JobId job);
// A state write died, its client is gone, and nothing was kept to undo it.
Error half_written(const WorkerJob& job);
// What a predecessor kept of the job is the job's.
void find_kept(WorkerContext& context, WorkerJob& job);

}  // namespace laneway::service
