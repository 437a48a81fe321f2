#include "lanes/images/prefix_control.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace laneway::lanes {

std::vector<JobId> PrefixControl::all() const {
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
  std::vector<JobId> found = all();
  // Its own as the last: that may lie in the way of what slides.
  const auto own = std::find(found.begin(), found.end(), job);
  if (own != found.end()) std::rotate(own, own + 1, found.end());
  if (found.empty() || suffices({})) return false;
  std::vector<JobId> given;
  bool enough = false;
  for (size_t i = 0; i < found.size() && !enough; ++i) {
    given.push_back(found[i]);
    enough = suffices(given);
  }
  if (!enough) return false;
  // The first ones may not be needed with the last one.
  for (size_t i = given.size(); i-- > 0;) {
    std::vector<JobId> without = given;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (suffices(without)) given = std::move(without);
  }
  for (const JobId id : given) give_up(id);
  return true;
}

void PrefixControl::give_up_all() {
  for (const JobId id : all()) give_up(id);
}

void PrefixControl::give_up(JobId job) {
  core_.pool.drop_prefix(job);
  core_.job_of(job).image.prefix = {};
  core_.actions.push_back(DropPrefix{job});
}

Bytes PrefixControl::wanted(const Job& job) const {
  if (job.prefix_wanted <= Bytes()) return {};
  const Bytes most = core_.pool.rounded(job.view.persistent) - Bytes(core_.config.alignment);
  return std::min(core_.pool.rounded(job.prefix_wanted), most);
}

}  // namespace laneway::lanes
