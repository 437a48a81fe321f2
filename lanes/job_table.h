// JobTable: the jobs that the core knows, in the order of their ids, each found in constant time
// (the core asks for one at every step, of thousands). A job stays where it is until it is removed:
// the view borrows it. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <unordered_map>

#include "base/ids.h"
#include "lanes/job.h"

namespace laneway::lanes {

class JobTable {
 public:
  JobTable() = default;
  JobTable(const JobTable&) = delete;  // the index points into the jobs
  JobTable& operator=(const JobTable&) = delete;

  // The job, or nullptr when there is no such job.
  Job* find(JobId id);
  const Job* find(JobId id) const;
  // Requires: there is no job of this id.
  Job& add(Job job);
  // Requires: it is in the table.
  void remove(JobId id);

  size_t size() const { return jobs_.size(); }
  bool empty() const { return jobs_.empty(); }
  // Pairs of id and job, by id.
  auto begin() { return jobs_.begin(); }
  auto end() { return jobs_.end(); }
  auto begin() const { return jobs_.begin(); }
  auto end() const { return jobs_.end(); }

 private:
  std::map<JobId, Job> jobs_;
  std::unordered_map<JobId, Job*> index_;  // never walked: its order differs from run to run
};

}  // namespace laneway::lanes
