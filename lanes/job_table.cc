#include "lanes/job_table.h"

#include <utility>

#include "base/check.h"

namespace laneway::lanes {

Job* JobTable::find_shadowed(JobId id) const {
  const auto found = index_.find(id);
  return found == index_.end() ? nullptr : found->second;
}

Job& JobTable::add(Job job) {
  const JobId id = job.view.id;
  const auto [at, is_new] = jobs_.emplace(id, std::move(job));
  LW_CHECK(is_new, "the core knows a job of this id already");
  index_[id] = &at->second;
  places_[place(id)] = &at->second;
  at->second.noted = false;
  note(at->second);
  return at->second;
}

void JobTable::remove(JobId id) {
  const bool known = find(id) != nullptr;  // and noted
  LW_CHECK(known && index_.erase(id) == 1, "the core knows no job of this id");
  Job*& in_place = places_[place(id)];
  if (in_place != nullptr && in_place->view.id == id) in_place = nullptr;
  jobs_.erase(id);
}

void JobTable::note(Job& job) {
  if (all_noted_) return;
  job.noted = true;
  if (noted_.size() >= kMostNoted) return note_all();
  noted_.push_back({job.view.id, job.view.arrival});
}

void JobTable::note_all() {
  all_noted_ = true;
  noted_.clear();
}

void JobTable::forget_noted() {
  if (std::exchange(all_noted_, false)) {
    for (auto& [id, job] : jobs_) job.noted = false;
  }
  for (const Noted& one : noted_) {
    if (Job* const job = look_up(one.job)) job->noted = false;
  }
  noted_.clear();
}

}  // namespace laneway::lanes
