#include "service/broker/placement_waits.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lanes/core/wait_estimate.h"
#include "lanes/state/reason.h"

namespace laneway::service {

void PlacementWaits::add(JobId job, const ReplyTo& to, Duration patience) {
  waits_[job].push_back({to, clock_.now() + patience});
}

void PlacementWaits::on_placed(JobId job) {
  const auto waits = waits_.extract(job);
  if (waits.empty()) return;
  for (const Wait& wait : waits.mapped()) replies_.send(wait.to, wire::JobPlaced{});
}

void PlacementWaits::on_end(JobId job, const Error& why) {
  const auto waits = waits_.extract(job);
  if (waits.empty()) return;
  for (const Wait& wait : waits.mapped()) replies_.fail(wait.to, why);
}

void PlacementWaits::answer_due(bool has_worker) {
  const TimePoint now = clock_.now();
  for (auto at = waits_.begin(); at != waits_.end();) {
    const JobId id = at->first;
    std::vector<Wait>& waits = at->second;
    ++at;  // what is answered goes
    LW_CHECK(table_.find(id) != nullptr, "a request waits for a job that is gone");
    const JobEntry& job = *table_.find(id);
    if (job.refused || job.closing) {
      on_end(id, job.refused ? *job.refused : *job.closing);
      continue;
    }
    std::erase_if(waits, [&](const Wait& wait) {
      if (wait.until > now) return false;
      replies_.send(wait.to, reason(job, has_worker));
      return true;
    });
    if (waits.empty()) waits_.erase(id);
  }
}

TimePoint PlacementWaits::next_wakeup() const {
  TimePoint next = TimePoint::never();
  for (const auto& [id, waits] : waits_) {
    for (const Wait& wait : waits) next = std::min(next, wait.until);
  }
  return next;
}

wire::JobWaits PlacementWaits::reason(const JobEntry& job, bool has_worker) {
  const lanes::Snapshot now = progress_.snapshot();
  lanes::Reason reason = job.reason;
  for (const lanes::JobStatus& one : now.jobs) {
    if (one.id == job.id()) reason = one.reason;
  }
  wire::JobWaits message{.position = reason.position,
                         .code = lanes::reason_code_name(reason.code),
                         .persistent = reason.persistent.count(),
                         .region = reason.region.count(),
                         .capacity = reason.capacity.count(),
                         .claimed = reason.claimed.count(),
                         .largest_free = reason.largest_free.count(),
                         .text = short_enough(lanes::reason_text(reason)),
                         .estimate_s = -1.0};
  if (!has_worker) {
    message.text = "The service's worker is being started; the job waits for it.";
  } else if (reason.code == lanes::ReasonCode::none) {
    message.text = "The job has its memory; its image is being filled.";
  } else if (const auto estimate = lanes::estimate_wait(now, job.id())) {
    message.estimate_s = estimate->seconds();
  }
  return message;
}

}  // namespace laneway::service
