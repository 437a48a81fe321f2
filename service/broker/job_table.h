// JobTable: the broker's jobs by id, and why the last ones are gone. Gives out ids of jobs (never
// twice) and records of the journal. Ordered by id. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "service/broker/job_entry.h"
#include "service/broker/replies.h"

namespace laneway::service {

// For requests about a job that is not in the table.
Error unknown_job(JobId id);

class JobTable {
 public:
  // Of a job that is gone.
  struct End {
    JobId job;
    SessionId owner;
    uint32_t user = 0;
    std::optional<Error> error;  // none: its client closed it
  };

  JobEntry* find(JobId id);
  // The job, when the session may speak of it: its own, or one that it is attached to. Else why the
  // job is gone, when it was the user's and ended not long ago; or invalid_argument.
  Result<JobEntry*> find_for(const Requester& from, JobId id);
  // The job that this request created.
  JobEntry* find_created(SessionId session, uint64_t request);
  // Those that the text means (service/wire/job_ref.h): the one of a number, or all of a name,
  // which need not be unique.
  std::vector<JobEntry*> find_named(const std::string& text);
  std::map<JobId, JobEntry>& all() { return jobs_; }
  const std::map<JobId, JobEntry>& all() const { return jobs_; }
  size_t count_of(SessionId owner) const;

  JobId next_id() { return JobId(++last_id_); }
  // Ids are given behind this one from now on.
  void ids_after(uint64_t id) { last_id_ = std::max(last_id_, id); }
  // None when all records are taken.
  std::optional<uint32_t> free_record() const;

  // `entry.record` says which job, and which record it takes. invalid_argument when either is taken
  // or out of bounds (of what a supervisor held).
  Result<JobEntry*> add(JobEntry entry);
  // Forgets it but for its end. `record` is the entry's, which may have been moved away.
  void erase(JobId id, const wire::held::Job& record, std::optional<Error> why);
  const std::deque<End>& ends() const { return ends_; }

 private:
  // Of a job that was there not long ago.
  const End* end_of(JobId id) const;

  std::map<JobId, JobEntry> jobs_;
  std::set<uint32_t> records_;  // taken
  std::deque<End> ends_;
  uint64_t last_id_ = 0;
};

}  // namespace laneway::service
