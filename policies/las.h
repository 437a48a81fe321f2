// Las: least attained service first, discretised: what a job has attained is the device time that
// it had, times its width, which is the share of the pool that it holds; jobs that attained less
// than a threshold are in the first of four queues, those below ten times as much in the second,
// and so on. Queues go before each other, in a queue the earliest job goes first. So short jobs are
// done soon though nobody says how long they are, and long ones do not take turns with each other.
// When memory is short: of jobs with work one of the last queue leaves, in a queue the latest, for
// one that goes before it. Who has nothing to run leaves first (first_to_leave.h).
//
// Source: the discretised two-dimensional LAS of Tiresias (Gu et al., "Tiresias: A GPU Cluster
// Manager for Distributed Deep Learning", NSDI 2019, section 3.2), whose second dimension is the
// number of GPUs; of one device it is the share of its pool.
// Knows: device time had, size, arrival.
// Options: threshold_s (default 1): of the first queue, in seconds of the whole pool. width=pool
// (default) or one: every job is as wide as the whole pool, as a job of one GPU is in Tiresias;
// one that holds no memory always is.
// Bound: that of CommonRules (in Tiresias: promotion); by itself long jobs starve while others
// come.
#pragma once

#include "policies/policy_options.h"
#include "policies/ranked.h"

namespace laneway::policies {

class Las final : public Ranked {
 public:
  explicit Las(PolicyOptions& options);

  std::string_view name() const override { return "las"; }
  // The turn ends where the job would fall into the next queue.
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;

 private:
  int64_t rank(TimePoint now, const View& view, const JobView& job) const override;

  double width(const View& view, const JobView& job) const;

  Duration threshold_;
  bool by_pool_;
};

}  // namespace laneway::policies
