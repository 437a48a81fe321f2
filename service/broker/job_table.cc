#include "service/broker/job_table.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "service/broker/limits.h"
#include "service/wire/job_ref.h"

namespace laneway::service {

Error unknown_job(JobId id) {
  return {ErrorCode::invalid_argument, "job " + std::to_string(id.value()) +
                                           " is not there (any more), or is not this session's"};
}

JobEntry* JobTable::find(JobId id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

Result<JobEntry*> JobTable::find_for(const Requester& from, JobId id) {
  const SessionId session = from.to.session;
  JobEntry* job = find(id);
  if (job != nullptr) {
    const bool attached =
        std::any_of(job->links.begin(), job->links.end(),
                    [session](const auto& link) { return link.second.session == session; });
    if (job->owner() == session || attached) return job;
  }
  const End* end = end_of(id);
  if (end != nullptr && end->user == from.user && end->error) return *end->error;
  return unknown_job(id);
}

JobEntry* JobTable::find_created(SessionId session, uint64_t request) {
  for (auto& [id, job] : jobs_) {
    if (job.owner() == session && job.record.request == request) return &job;
  }
  return nullptr;
}

std::vector<JobEntry*> JobTable::find_named(const std::string& text) {
  const wire::JobRef ref = wire::job_ref(text);
  std::vector<JobEntry*> named;
  for (auto& [id, job] : jobs_) {
    if (ref.names(id, job.name())) named.push_back(&job);
  }
  return named;
}

size_t JobTable::count_of(SessionId owner) const {
  return static_cast<size_t>(std::count_if(jobs_.begin(), jobs_.end(), [owner](const auto& job) {
    return job.second.owner() == owner;
  }));
}

std::optional<uint32_t> JobTable::free_record() const {
  uint32_t candidate = 0;
  for (const uint32_t taken : records_) {
    if (taken != candidate) break;
    ++candidate;
  }
  if (candidate >= limits::kMaxJobs) return std::nullopt;
  return candidate;
}

Result<JobEntry*> JobTable::add(JobEntry entry) {
  const JobId id = entry.id();
  const uint32_t record = entry.record.record;
  if (!id.valid() || jobs_.count(id) > 0 || record >= limits::kMaxJobs ||
      records_.count(record) > 0) {
    return Error{ErrorCode::invalid_argument, "job " + std::to_string(id.value()) + " or record " +
                                                  std::to_string(record) + " is taken already"};
  }
  records_.insert(record);
  ids_after(id.value());
  return &jobs_.emplace(id, std::move(entry)).first->second;
}

void JobTable::erase(JobId id, const wire::held::Job& record, std::optional<Error> why) {
  ends_.push_back({id, SessionId(record.session), record.user, std::move(why)});
  if (ends_.size() > limits::kMaxRememberedEnds) ends_.pop_front();
  records_.erase(record.record);
  jobs_.erase(id);
}

const JobTable::End* JobTable::end_of(JobId id) const {
  const auto end =
      std::find_if(ends_.begin(), ends_.end(), [id](const End& one) { return one.job == id; });
  return end == ends_.end() ? nullptr : &*end;
}

}  // namespace laneway::service
