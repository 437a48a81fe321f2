#include "service/broker/job_progress.h"

namespace laneway::service {

lanes::Snapshot JobProgress::snapshot() {
  lanes::Snapshot now = core_->snapshot();
  now.now = clock_.now();
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

std::optional<std::string> JobProgress::suspicion(JobId job) {
  const JobEntry* const entry = table_.find(job);
  if (journal_ == nullptr || entry == nullptr) return {};
  return journal_->suspicion(entry->record.record, job);
}

Bytes JobProgress::moved(JobId job) {
  const JobEntry* const entry = table_.find(job);
  if (journal_ == nullptr || entry == nullptr) return {};
  return journal_->moved(entry->record.record, job);
}

}  // namespace laneway::service
