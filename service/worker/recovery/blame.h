// Blame: which jobs a dead worker died of. A signal that one of its lanes received, an exit that
// one called, or the supervisor's word that a lane hung, is counted against the job whose work the
// lane did, at the node that it was at. The same node of the same job twice: the job is
// quarantined. A worker that was killed from outside, or left, blames nobody.
#pragma once

#include <optional>

#include "base/result.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_jobs.h"

namespace laneway::service {

// Reads what the lanes of the dead worker noted, and clears it. A worker that dies inside of it
// loses a count at most. Requires: no lane is open yet.
void blame_for_death(WorkerContext& context, WorkerJobs& jobs) LW_REQUIRES(kBookkeeping);

// Why none of the job's iterations is run any more, if it is quarantined.
std::optional<Error> quarantine_of(const WorkerJob& job);
// The job is tried again, alone at first, and its quarantine begins anew with the next death at the
// same place. Refused when it is not quarantined.
Status release_from_quarantine(WorkerContext& context, const JobHandle& job);
// It brought a worker down although none of its iterations was asked for: it cannot be kept.
bool is_beyond_quarantine(const WorkerJob& job);

}  // namespace laneway::service
