// Speeds: how fast jobs compute beside each other, as measured: of two jobs in different lanes the
// mean time of an iteration of each while exactly the other one computed. With the times of each
// alone (JobView::alone_time) that gives the pair's sum of speeds: alone / beside, of both. One
// after the other two jobs have a sum of 1; above that it pays to let them run beside each other.
//
// Kept for at most kMostPairs pairs; one more replaces the pair of the oldest jobs. Plain data in
// whole numbers, so that it is the same everywhere. Not thread-safe: it belongs to the core's view.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/ids.h"
#include "base/time.h"
#include "policies/moving_mean.h"

namespace laneway::policies {

struct JobView;

class Speeds {
 public:
  static constexpr size_t kMostPairs = 1024;
  // A mean of fewer iterations says nothing.
  static constexpr uint64_t kEnough = 4;
  // So often, in each kRetry, turns may be arranged to measure a pair: of jobs that hardly ever
  // compute at the same time nothing can be measured, and they lose little to each other.
  static constexpr uint32_t kMostTries = 32;
  static constexpr Duration kRetry = seconds(30);

  // `many` iterations of `job` took `took` together while `other` computed. Requires: neither is
  // negative; they are two jobs.
  void add(TimePoint now, JobId job, JobId other, uint64_t many, Duration took);
  // Turns were arranged to measure this pair.
  void note_try(TimePoint now, JobId one, JobId other);
  bool may_try(TimePoint now, JobId one, JobId other) const;
  // The job is over.
  void forget(JobId job);
  // What is known of the job's iterations beside the other's; and, for a core that takes over, what
  // was, which counts as measured now. Requires of recall: two jobs, a time that is possible.
  MovingMean time_of(JobId job, JobId other) const;
  void recall(TimePoint now, JobId job, JobId other, const MovingMean& time);

  // In thousandths; nothing until all four times are known.
  std::optional<int64_t> sum_of(const JobView& one, const JobView& other) const;
  // Since when neither time of the pair was measured again. Requires: sum_of is known.
  TimePoint measured_at(JobId one, JobId other) const;
  size_t pairs() const { return pairs_.size(); }

 private:
  struct Side {
    MovingMean time;
    TimePoint at;
  };
  struct Pair {
    Side lower;  // of the job with the lower id
    Side higher;
    uint32_t tries = 0;
    TimePoint tries_since;
  };
  using Key = std::pair<JobId, JobId>;  // the lower id first

  static Key key_of(JobId one, JobId other) { return std::minmax(one, other); }
  const Pair* find(JobId one, JobId other) const;
  Pair& kept(JobId one, JobId other);

  std::map<Key, Pair> pairs_;
};

}  // namespace laneway::policies
