// Fifo: first come, first served. Jobs are admitted by arrival. In a lane the earliest job that
// has work runs, as long as it has (option by=job), or the job whose work has waited longest, one
// iteration a turn (by=request).
// When memory is short: by=job, of jobs with work the latest leaves, and only for an earlier one
// (inferences without a total take turns); by=request, they take turns, the one that has been in
// the pool for longest leaves. Who has nothing to run leaves first (first_to_leave.h).
//
// Source: the FIFO policy of Salus (Yu and Chowdhury, "Fine-Grained GPU Sharing Primitives for Deep
// Learning Applications", MLSys 2020, section 4), which is by=job in a single lane. Its PACK:
// packing.h.
// Knows: arrival, since when work waits, and when an image was used last.
// Options: by=job|request; admit=strict|fit: whether, while the earliest waiting job finds no
// room, nobody behind it is admitted, or the first that fits is.
// Bound: by=request: a job waits for one iteration of each rival. by=job and admit=fit:
// CommonRules.
#pragma once

#include <cstdint>

#include "policies/policy.h"
#include "policies/policy_options.h"

namespace laneway::policies {

class Fifo : public Policy {
 public:
  Fifo() = default;
  explicit Fifo(PolicyOptions& options)
      : by_request_(options.choice("by", {"job", "request"}) == 1),
        fills_gaps_(options.choice("admit", {"strict", "fit"}) == 1) {}

  std::string_view name() const override { return "fifo"; }
  AdmitDecision admit(TimePoint now, const View& view) override;
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  // by=request: by since when its work waits, and nobody's iteration is in anybody's way.
  TurnRank turn_rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const override {
    if (!by_request_) return {};
    return {.value = job.running ? INT64_MIN : job.ready_since.ns()};
  }
  int64_t admission_rank(TimePoint /*now*/, const View& /*view*/,
                         const JobView& job) const override {
    return by_request_ ? static_cast<int64_t>(job.queue) : 0;
  }
  EvictDecision evict(TimePoint now, const View& view, const EvictQuestion& question) override;

 protected:
  explicit Fifo(bool fills_gaps) : fills_gaps_(fills_gaps) {}

 private:
  bool by_request_ = false;
  bool fills_gaps_ = false;
};

}  // namespace laneway::policies
