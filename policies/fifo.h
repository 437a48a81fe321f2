// Fifo: first come, first served, by arrival of the jobs. Admission is head of line: while the
// earliest waiting job finds no room, nobody behind it is admitted, so no job is overtaken for
// ever. In a lane the earliest job that has work runs, which in a lane of its own or a shared one
// is run-to-completion as long as its client keeps submitting. Who has to leave the pool is said by
// least_useful.h.
//
// Knows: arrival, and when an image was used last. Option `share` (yes or no, default yes): whether
// a job may go into an existing lane when a new lane finds no room.
#pragma once

#include "policies/policy.h"

namespace laneway::policies {

class Fifo final : public Policy {
 public:
  explicit Fifo(bool share = true) : share_(share) {}

  std::string_view name() const override { return "fifo"; }
  AdmitDecision admit(TimePoint now, const View& view) override;
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  JobId evict(TimePoint now, const View& view, const EvictQuestion& question) override;

 private:
  bool share_;
};

}  // namespace laneway::policies
