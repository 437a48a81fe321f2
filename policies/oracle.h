// Oracle: how long jobs take, as far as one can tell, for policies that order by it. What a job
// does not say is guessed, so that no answer is "unknown, so last":
//  - an inference job without a total is as long as the request at hand: one iteration;
//  - a job that named no total, or has done more than it named, is taken to be half done: as much
//    is left as it has had. So a lie costs the others at most as much time again as the liar got.
// What one iteration takes is measured; before that it is what jobs with equal graphs measured,
// else what the client said (iteration_s).
// A job is unmeasured until two iterations of it were done: the first one is a probe. Policies that
// ask how long jobs take give unmeasured ones these two before anybody else's next turn.
//
// For experiments, an error can be put into all that is told: option oracle_error=E (from 0 to 100)
// multiplies each job's times by a factor between 1 / (1 + E) and 1 + E, uniform in the logarithm,
// drawn from `seed` and the job's id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "policies/policy_options.h"
#include "policies/turn_budget.h"
#include "policies/view.h"

namespace laneway::policies {

class Oracle {
 public:
  Oracle() = default;
  // Takes the two options.
  explicit Oracle(PolicyOptions& options);

  // Device time until the job is done.
  Duration remaining(const JobView& job) const {
    const std::optional<Duration> left = job.remaining();
    return left && error_ <= 0 ? within(*left) : told(job, left.value_or(guess(job)));
  }
  // Device time of the whole job, what was done included.
  Duration total(const JobView& job) const;
  // As remaining(), but nothing where it would be a guess about the total.
  std::optional<Duration> known_remaining(const JobView& job) const;

  // Whether it could be told of the job anything but a guess that nothing stands behind.
  static bool knows(const JobView& job) { return job.iterations > 0 || job.remaining(); }

  // The first unmeasured one among the candidates for a turn; null: there is none. One that had
  // several turns and did nothing in them counts no more.
  static const JobView* unmeasured(std::span<const JobView* const> candidates);
  static bool is_unmeasured(const JobView& job);
  // A turn until the job should be done, when it is looked at again: what was told may be wrong,
  // and a guess gets old sooner.
  TurnBudget turn_of(const JobView& job) const;
  // What the turn of an unmeasured job is for.
  static constexpr TurnBudget kMeasuring{.iterations = 2};

 private:
  // Over four years: longer than anybody computes, and a few of them add up.
  static constexpr Duration kLongest = Duration(INT64_MAX / 64);
  static constexpr Duration within(Duration time) { return std::clamp(time, Duration(), kLongest); }
  // By how much what is told of `subject` is wrong.
  double factor(uint64_t subject) const;
  Duration told(const JobView& job, Duration time) const;
  static Duration guess(const JobView& job);

  double error_ = 0;
  uint64_t seed_ = 1;
};

}  // namespace laneway::policies
