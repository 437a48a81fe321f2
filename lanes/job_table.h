// JobTable: the jobs that the core knows, in the order of their ids, each found in constant time
// (the core asks for one at every step, of thousands). A job stays where it is until it is removed:
// the view borrows it.
//
// Whoever gets a job that he may change has it noted: parts that keep something of every job put
// that right before they use it, instead of looking at all. What is read is better asked for as
// const. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "lanes/job.h"

namespace laneway::lanes {

class JobTable {
 public:
  JobTable() = default;
  JobTable(const JobTable&) = delete;  // the index points into the jobs
  JobTable& operator=(const JobTable&) = delete;

  // The job, or nullptr when there is no such job.
  Job* find(JobId id) {
    Job* const job = look_up(id);
    if (!all_noted_ && job != nullptr && !job->noted) note(*job);
    return job;
  }
  const Job* find(JobId id) const { return look_up(id); }
  // Requires: there is no job of this id.
  Job& add(Job job);
  // Requires: it is in the table.
  void remove(JobId id);

  size_t size() const { return jobs_.size(); }
  bool empty() const { return jobs_.empty(); }
  // Pairs of id and job, by id. All are noted where it is not const.
  auto begin() {
    note_all();
    return jobs_.begin();
  }
  auto end() { return jobs_.end(); }
  auto begin() const { return jobs_.begin(); }
  auto end() const { return jobs_.end(); }

  struct Noted {
    JobId job;
    uint64_t arrival;
  };
  // Those that were added, removed or given to somebody since forget_noted(), unless all are.
  const std::vector<Noted>& noted() const { return noted_; }
  bool all_noted() const { return all_noted_; }
  void note_all();
  // A reference from before must not be used for a change any more.
  void forget_noted();

 private:
  static constexpr size_t kPlaces = 4096;
  // If nobody asks, the list does not grow on: to look at all jobs is about as much work then.
  static constexpr size_t kMostNoted = 1024;

  static size_t place(JobId id) { return id.value() % kPlaces; }
  Job* look_up(JobId id) const {
    Job* const job = places_[place(id)];
    return job != nullptr && job->view.id == id ? job : find_shadowed(id);
  }
  Job* find_shadowed(JobId id) const;
  void note(Job& job);

  bool all_noted_ = true;  // so that it costs nothing where nobody ever asks
  std::map<JobId, Job> jobs_;
  // Never walked: its order differs from run to run.
  std::unordered_map<JobId, Job*> index_;
  // In front of it, by the last bits of the id: ids come one after the other, so that few jobs of a
  // time share a place; the last one that was added has it.
  std::array<Job*, kPlaces> places_{};
  std::vector<Noted> noted_;
};

}  // namespace laneway::lanes
