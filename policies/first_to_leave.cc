#include "policies/first_to_leave.h"

namespace laneway::policies {

JobId least_used(TimePoint now, std::span<const EvictCandidate> candidates) {
  JobId first;
  Duration most;
  for (const EvictCandidate& one : candidates) {
    if (!one.idle) continue;
    const Duration unused = (now - one.job->used_at) * (one.clean ? 2 : 1);
    if (first.valid() && unused <= most) continue;
    first = one.job->id;
    most = unused;
  }
  return first;
}

bool LastOfThoseWithWork::leaves(const JobView& job, int64_t rank) const {
  if (question_.overdue) return true;
  if (rank != wants_) return wants_ < rank;
  if (takes_turns(question_.wants) && takes_turns(job)) return true;
  return turn_of(question_.wants) < turn_of(job);
}

bool LastOfThoseWithWork::is_later(const JobView& job, int64_t rank) const {
  if (last_ == nullptr) return true;
  if (rank != last_rank_) return rank > last_rank_;
  if (takes_turns(job) && takes_turns(*last_)) return job.placed_at < last_->placed_at;
  return turn_of(job) > turn_of(*last_);
}

void LastOfThoseWithWork::see(const JobView& job, int64_t rank) {
  if (!leaves(job, rank) || !is_later(job, rank)) return;
  last_ = &job;
  last_rank_ = rank;
}

}  // namespace laneway::policies
