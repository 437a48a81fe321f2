// Srtf: shortest remaining time first. The remaining time of a job is what is left of its
// iterations times its measured mean iteration time (the client's estimate until one is measured);
// jobs that did not say how many iterations they want come last, ties go by arrival. Since turns
// end at iteration boundaries, a shorter job that becomes ready overtakes a longer one after the
// iteration that is running.
//
// Source: the SRTF policy of Salus (Yu and Chowdhury, "Fine-Grained GPU Sharing Primitives for Deep
// Learning Applications", MLSys 2020, section 4), which preempts at iteration granularity and
// relies on iteration times being predictable; remaining time as in its evaluation, from the job's
// iteration count. Admission follows the same order and is head of line in it: the shortest waiting
// job is not overtaken by a longer one that happens to be small.
//
// Knows: remaining time, arrival. Option `share` as for fifo. Long jobs can starve while shorter
// ones keep coming; that is the policy, not an accident.
#pragma once

#include "policies/policy.h"

namespace laneway::policies {

class Srtf final : public Policy {
 public:
  explicit Srtf(bool share = true) : share_(share) {}

  std::string_view name() const override { return "srtf"; }
  AdmitDecision admit(TimePoint now, const View& view) override;
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  // The one with the longest remaining time leaves; idle jobs before ready ones.
  JobId evict(TimePoint now, const View& view, const EvictQuestion& question) override;

 private:
  bool share_;
};

}  // namespace laneway::policies
