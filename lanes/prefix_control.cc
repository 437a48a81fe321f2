#include "lanes/prefix_control.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace laneway::lanes {

std::vector<JobId> PrefixControl::by_last_use() const {
  std::vector<JobId> found;
  // Those of jobs that come back are counted too, so this is the most that there can be.
  if (core_.pool.ledger().revocable(memory::Revocation::on_demand) == Bytes()) return found;
  for (const auto& [id, job] : core_.jobs) {
    if (job.state() == JobState::away && core_.pool.prefix_of(id).exists()) found.push_back(id);
  }
  std::stable_sort(found.begin(), found.end(), [this](JobId a, JobId b) {
    return core_.job_of(a).view.used_at < core_.job_of(b).view.used_at;
  });
  return found;
}

bool PrefixControl::give_up_for(JobId job, const Suffices& suffices) {
  std::vector<JobId> all = by_last_use();
  std::erase(all, job);
  if (all.empty() || suffices(core_.pool)) return false;
  const auto suffice = [&](const std::vector<JobId>& given) {
    PoolMap trial = core_.pool;
    for (const JobId id : given) trial.drop_prefix(id);
    return suffices(std::move(trial));
  };
  std::vector<JobId> given;
  for (const JobId id : all) {
    given.push_back(id);
    if (suffice(given)) break;
  }
  if (!suffice(given)) return false;
  // The first ones may not be needed with the last one.
  for (size_t i = given.size(); i-- > 0;) {
    std::vector<JobId> without = given;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (suffice(without)) given = std::move(without);
  }
  for (const JobId id : given) give_up(id);
  return true;
}

void PrefixControl::give_up_all() {
  for (const JobId id : by_last_use()) give_up(id);
}

void PrefixControl::give_up(JobId job) {
  core_.pool.drop_prefix(job);
  core_.actions.push_back(DropPrefix{job});
  core_.memory_changed();
}

const PoolMap& PrefixControl::pool_without(std::optional<PoolMap>& copy) const {
  const std::vector<JobId> all = by_last_use();
  if (all.empty()) return core_.pool;
  copy = core_.pool;
  for (const JobId id : all) copy->drop_prefix(id);
  return *copy;
}

Bytes PrefixControl::wanted(const Job& job) const {
  if (job.prefix_wanted <= Bytes()) return {};
  const Bytes most = core_.pool.rounded(job.view.persistent) - Bytes(core_.config.alignment);
  return std::min(core_.pool.rounded(job.prefix_wanted), most);
}

}  // namespace laneway::lanes
