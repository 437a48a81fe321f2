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
  return at->second;
}

void JobTable::remove(JobId id) {
  LW_CHECK(index_.erase(id) == 1, "the core knows no job of this id");
  Job*& in_place = places_[place(id)];
  if (in_place != nullptr && in_place->view.id == id) in_place = nullptr;
  jobs_.erase(id);
}

}  // namespace laneway::lanes
