// FirstCome: fifo's answers, for a policy of a test that answers one question more.
#pragma once

#include "policies/fifo.h"
#include "policies/policy.h"

namespace laneway::lanes {

class FirstCome : public policies::Policy {
 public:
  policies::AdmitDecision admit(TimePoint now, const policies::View& view) override {
    return fifo_.admit(now, view);
  }
  policies::PickDecision pick(TimePoint now, const policies::View& view,
                              const policies::PickQuestion& question) override {
    return fifo_.pick(now, view, question);
  }
  policies::EvictDecision evict(TimePoint now, const policies::View& view,
                                const policies::EvictQuestion& question) override {
    return fifo_.evict(now, view, question);
  }

 private:
  policies::Fifo fifo_;
};

}  // namespace laneway::lanes
