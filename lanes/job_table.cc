#include "lanes/job_table.h"

#include <utility>

#include "base/check.h"

namespace laneway::lanes {

Job* JobTable::find(JobId id) {
  const auto found = index_.find(id);
  return found == index_.end() ? nullptr : found->second;
}

const Job* JobTable::find(JobId id) const {
  const auto found = index_.find(id);
  return found == index_.end() ? nullptr : found->second;
}

Job& JobTable::add(Job job) {
  const JobId id = job.view.id;
  const auto [place, is_new] = jobs_.emplace(id, std::move(job));
  LW_CHECK(is_new, "the core knows a job of this id already");
  index_[id] = &place->second;
  return place->second;
}

void JobTable::remove(JobId id) {
  LW_CHECK(index_.erase(id) == 1, "the core knows no job of this id");
  jobs_.erase(id);
}

}  // namespace laneway::lanes
