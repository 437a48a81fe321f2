#include "lanes/state/job_table.h"

#include <utility>

#include "base/check.h"

namespace laneway::lanes {

Job* JobTable::find_shadowed(JobId id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

Job& JobTable::add(Job job) {
  const JobId id = job.view.id;
  const auto [at, is_new] = jobs_.emplace(id, std::move(job));
  LW_CHECK(is_new, "the core knows a job of this id already");
  if (jobs_.size() > places_.size()) grow();
  places_[place(id)] = &at->second;
  at->second.tally_ = &tally_;
  ++tally_.in_state[static_cast<size_t>(at->second.state())];
  return at->second;
}

void JobTable::grow() {
  places_.assign(places_.size() * 2, nullptr);
  for (auto& [id, job] : jobs_) places_[place(id)] = &job;
}

void JobTable::remove(JobId id) {
  Job*& in_place = places_[place(id)];
  if (in_place != nullptr && in_place->view.id == id) in_place = nullptr;
  const auto found = jobs_.find(id);
  LW_CHECK(found != jobs_.end(), "the core knows no job of this id");
  --tally_.in_state[static_cast<size_t>(found->second.state())];
  tally_.changes.note(Changed::ended);
  jobs_.erase(found);
}

}  // namespace laneway::lanes
