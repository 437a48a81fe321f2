// JobTable: the jobs that the core knows, in the order of their ids, each found in constant time
// (the core asks for one at every step, of thousands). A job stays where it is until it is removed:
// the view borrows it. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "base/ids.h"
#include "lanes/state/job.h"

namespace laneway::lanes {

class JobTable {
 public:
  // What changes of the jobs is noted in `changes`, which must outlive the object.
  explicit JobTable(Changes& changes) : tally_{.changes = changes}, places_(kPlaces) {}
  JobTable(const JobTable&) = delete;  // the places point into the jobs
  JobTable& operator=(const JobTable&) = delete;

  // The job, or nullptr when there is no such job.
  Job* find(JobId id) {
    Job* const job = places_[place(id)];
    return job != nullptr && job->view.id == id ? job : find_shadowed(id);
  }
  const Job* find(JobId id) const { return const_cast<JobTable*>(this)->find(id); }
  // Requires: there is no job of this id.
  Job& add(Job job);
  // Requires: it is in the table.
  void remove(JobId id);

  uint32_t count_in(JobState state) const { return tally_.in_state[static_cast<size_t>(state)]; }
  size_t size() const { return jobs_.size(); }
  bool empty() const { return jobs_.empty(); }
  // Pairs of id and job, by id.
  auto begin() { return jobs_.begin(); }
  auto end() { return jobs_.end(); }
  auto begin() const { return jobs_.begin(); }
  auto end() const { return jobs_.end(); }

 private:
  // At first; a power of two.
  static constexpr size_t kPlaces = 4096;
  size_t place(JobId id) const { return id.value() & (places_.size() - 1); }
  void grow();
  Job* find_shadowed(JobId id);

  JobTally tally_;
  std::map<JobId, Job> jobs_;
  // In front of it, by the last bits of the id: ids come one after the other, so that few jobs of a
  // time share a place; the last one that was added has it. There are as many places as jobs, or
  // more.
  std::vector<Job*> places_;
};

}  // namespace laneway::lanes
