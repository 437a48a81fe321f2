#include "service/broker/job_progress.h"

#include <algorithm>

#include "service/broker/user_names.h"
#include "service/status/shown_facts.h"

namespace laneway::service {

lanes::Snapshot JobProgress::snapshot() {
  lanes::Snapshot now = core_->snapshot();
  now.now = clock_.now();
  if (journal_ == nullptr) return now;
  // Both ascend by id.
  auto entry = table_.all().begin();
  for (lanes::JobStatus& status : now.jobs) {
    while (entry != table_.all().end() && entry->first < status.id) ++entry;
    if (entry == table_.all().end()) break;
    if (entry->first != status.id) continue;
    JobEntry* const job = &entry->second;
    const auto live = journal_->progress(job->record.record, status.id);
    // A worker that has just begun may not have opened the job's record yet.
    if (!live || live->iterations < status.iterations) continue;
    status.iterations = live->iterations;
    status.device_time = live->busy;
    job->pace.saw(now.now, live->iterations);
    status.pace = job->pace.per_iteration();
  }
  return now;
}

wire::JobFacts JobProgress::facts(const JobEntry& job) const {
  const JobId id(job.record.job);
  wire::JobFacts facts{
      .job = id, .user = user_name(job.record.user), .client_torch = job.record.torch_version};
  if (journal_ == nullptr) return facts;
  facts.blame = journal_->suspicion(job.record.record, id);
  if (const JobShown* const shown = journal_->shown(job.record.record, id)) {
    add_shown(*shown, facts);
  }
  return facts;
}

std::vector<wire::JobFacts> JobProgress::facts(const std::vector<lanes::JobStatus>& ended) const {
  std::vector<wire::JobFacts> all;
  all.reserve(table_.all().size());
  for (const auto& [id, job] : table_.all()) all.push_back(facts(job));
  if (ended.empty()) return all;
  const auto& ends = table_.ends();
  for (const lanes::JobStatus& job : ended) {
    const auto end = std::find_if(ends.rbegin(), ends.rend(),
                                  [&](const JobTable::End& one) { return one.job == job.id; });
    if (end != ends.rend()) all.push_back({.job = job.id, .user = user_name(end->user)});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.job < b.job; });
  return all;
}

}  // namespace laneway::service
