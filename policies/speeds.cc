#include "policies/speeds.h"

#include <algorithm>

#include "base/check.h"
#include "policies/view.h"

namespace laneway::policies {

const Speeds::Pair* Speeds::find(JobId one, JobId other) const {
  const auto found = pairs_.find(key_of(one, other));
  return found == pairs_.end() ? nullptr : &found->second;
}

Speeds::Pair& Speeds::kept(JobId one, JobId other) {
  const Key key = key_of(one, other);
  if (pairs_.size() >= kMostPairs && pairs_.count(key) == 0) pairs_.erase(pairs_.begin());
  return pairs_[key];
}

void Speeds::add(TimePoint now, JobId job, JobId other, uint64_t many, Duration took) {
  Pair& pair = kept(job, other);
  Side& side = job < other ? pair.lower : pair.higher;
  side.time.add(many, took);
  side.at = now;
}

MovingMean Speeds::time_of(JobId job, JobId other) const {
  const Pair* pair = find(job, other);
  if (pair == nullptr) return {};
  return job < other ? pair->lower.time : pair->higher.time;
}

void Speeds::recall(TimePoint now, JobId job, JobId other, const MovingMean& time) {
  Pair& pair = kept(job, other);
  (job < other ? pair.lower : pair.higher) = {.time = time, .at = now};
}

void Speeds::note_try(TimePoint now, JobId one, JobId other) {
  Pair& pair = kept(one, other);
  if (pair.tries == 0 || now - pair.tries_since > kRetry) {
    pair.tries = 0;
    pair.tries_since = now;
  }
  ++pair.tries;
}

bool Speeds::may_try(TimePoint now, JobId one, JobId other) const {
  const Pair* pair = find(one, other);
  return pair == nullptr || pair->tries < kMostTries || now - pair->tries_since > kRetry;
}

void Speeds::forget(JobId job) {
  std::erase_if(pairs_, [job](const auto& pair) {
    return pair.first.first == job || pair.first.second == job;
  });
}

std::optional<int64_t> Speeds::sum_of(const JobView& one, const JobView& other) const {
  const Pair* pair = find(one.id, other.id);
  if (pair == nullptr) return std::nullopt;
  const auto speed = [](const JobView& job, const Side& side) -> int64_t {
    const bool known = job.alone_time.count >= kEnough && side.time.count >= kEnough;
    const int64_t beside_ns = side.time.mean().ns();
    if (!known || beside_ns <= 0) return 0;
    constexpr int64_t kLongest = INT64_MAX / 1000;
    return std::min(job.alone_time.mean().ns(), kLongest) * 1000 / beside_ns;
  };
  const bool in_order = one.id < other.id;
  const int64_t first = speed(one, in_order ? pair->lower : pair->higher);
  const int64_t second = speed(other, in_order ? pair->higher : pair->lower);
  if (first <= 0 || second <= 0) return std::nullopt;
  // Nobody computes faster because another one computes: what seems so is noise.
  return std::min<int64_t>(first, 1000) + std::min<int64_t>(second, 1000);
}

TimePoint Speeds::measured_at(JobId one, JobId other) const {
  const Pair* pair = find(one, other);
  LW_CHECK(pair != nullptr, "nothing is known of the pair");
  return std::min(pair->lower.at, pair->higher.at);
}

}  // namespace laneway::policies
