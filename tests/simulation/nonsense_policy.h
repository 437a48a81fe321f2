// NonsensePolicy: answers like a broken plugin: jobs that do not exist, lanes that are not there,
// jobs that are not ready, and now and then something right.
#pragma once

#include "base/random.h"
#include "policies/policy.h"

namespace laneway::simulation {

class NonsensePolicy final : public policies::Policy {
 public:
  explicit NonsensePolicy(uint64_t seed) : random_(seed) {}

  std::string_view name() const override { return "nonsense"; }

  policies::AdmitDecision admit(TimePoint /*now*/, const policies::View& view) override {
    policies::AdmitDecision decision{.job = any(), .lane = LaneId(random_.below(12))};
    if (!view.waiting().empty() && random_.chance(0.5)) {
      decision.job = view.waiting()[random_.below(view.waiting().size())]->id;
    }
    // "Nobody" is a right answer, but for ever it would be no policy.
    if (!decision.job.valid()) decision.job = JobId(UINT64_MAX);
    return decision;
  }
  JobId pick(TimePoint /*now*/, const policies::View& /*view*/,
             const policies::PickQuestion& question) override {
    if (random_.chance(0.5)) return any();
    return question.candidates[random_.below(question.candidates.size())]->id;
  }
  JobId evict(TimePoint /*now*/, const policies::View& /*view*/,
              const policies::EvictQuestion& question) override {
    if (random_.chance(0.5)) return any();
    return question.candidates[random_.below(question.candidates.size())].job->id;
  }

 private:
  JobId any() { return JobId(random_.below(60)); }

  Random random_;
};

}  // namespace laneway::simulation
