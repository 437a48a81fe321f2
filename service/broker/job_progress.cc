#include "service/broker/job_progress.h"

namespace laneway::service {

lanes::Snapshot JobProgress::snapshot() {
  lanes::Snapshot now = core_->snapshot();
  if (journal_ == nullptr) return now;
  for (lanes::JobStatus& status : now.jobs) {
    JobEntry* job = table_.find(status.id);
    if (job == nullptr) continue;
    const auto live = journal_->progress(job->record.record, status.id);
    // A worker that has just begun may not have opened the job's record yet.
    if (!live || live->iterations < status.iterations) continue;
    status.iterations = live->iterations;
    status.device_time = live->busy;
    job->pace.saw(clock_.now(), live->iterations);
    status.pace = job->pace.per_iteration();
  }
  return now;
}

}  // namespace laneway::service
