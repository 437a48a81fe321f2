// NonsensePolicy: answers like a broken plugin: jobs that do not exist, lanes that are not there,
// jobs that are not ready, turns of 300 years or less than none, and now and then something right.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"
#include "policies/policy.h"

namespace laneway::simulation {

class NonsensePolicy final : public policies::Policy {
 public:
  explicit NonsensePolicy(uint64_t seed) : random_(seed), urgencies_(seed + 1) {}

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
  policies::PickDecision pick(TimePoint /*now*/, const policies::View& /*view*/,
                              const policies::PickQuestion& question) override {
    policies::PickDecision decision{.job = any(), .budget = any_budget()};
    if (random_.chance(0.5)) {
      decision.job = question.candidates[random_.below(question.candidates.size())]->id;
    }
    return decision;
  }
  int64_t urgency(TimePoint /*now*/, const policies::View& /*view*/,
                  const policies::JobView& /*job*/) const override {
    return std::array{INT64_MIN, int64_t{0}, int64_t{1}, INT64_MAX}.at(urgencies_.below(4));
  }
  policies::EvictDecision evict(TimePoint /*now*/, const policies::View& /*view*/,
                                const policies::EvictQuestion& question) override {
    if (random_.chance(0.5)) return {.job = any()};
    return {.job = question.candidates[random_.below(question.candidates.size())].job->id};
  }

 private:
  policies::TurnBudget any_budget() {
    switch (random_.below(5)) {
      case 0: return {};
      case 1: return {.iterations = UINT64_MAX};
      case 2: return {.iterations = random_.below(5), .slice = Duration(INT64_MAX)};
      case 3: return {.iterations = 0, .slice = Duration(INT64_MIN)};
      default: return {.iterations = 1, .slice = microseconds(random_.between(0, 2000))};
    }
  }
  JobId any() { return JobId(random_.below(60)); }

  Random random_;
  mutable Random urgencies_;
};

}  // namespace laneway::simulation
