#include "policies/oracle.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace laneway::policies {
namespace {

constexpr uint32_t kMostVainTurns = 4;

}  // namespace

Oracle::Oracle(PolicyOptions& options)
    : error_(options.number("oracle_error", 0, 0, 100)),
      seed_(options.count("seed", 1, 0, UINT64_MAX)) {}

double Oracle::factor(uint64_t subject) const {
  Random random(seed_ ^ (subject * 0x9e3779b97f4a7c15ULL));
  return std::pow(1 + error_, 2 * random.unit() - 1);
}

Duration Oracle::told(const JobView& job, Duration time) const {
  if (error_ <= 0) return within(time);
  const double wrong = static_cast<double>(within(time).ns()) * factor(job.id.value());
  return within(
      Duration(static_cast<int64_t>(std::min(wrong, static_cast<double>(kLongest.ns())))));
}

Duration Oracle::guess(const JobView& job) {
  const bool by_request =
      job.options.job_class == JobClass::inference && job.options.total_iterations == 0;
  return by_request ? job.mean_iteration_time() : job.busy;
}

Duration Oracle::total(const JobView& job) const {
  const auto left = job.remaining();
  if (left) return told(job, within(*left) + within(job.busy));
  const bool by_request =
      job.options.job_class == JobClass::inference && job.options.total_iterations == 0;
  return told(job, within(guess(job)) + (by_request ? Duration() : within(job.busy)));
}

std::optional<Duration> Oracle::known_remaining(const JobView& job) const {
  if (!job.remaining()) return std::nullopt;
  return remaining(job);
}

TurnBudget Oracle::turn_of(const JobView& job) const {
  constexpr Duration kShortest = milliseconds(20);
  constexpr Duration kLongestGuess = seconds(1);
  const Duration longest = job.remaining() ? kLongest : kLongestGuess;
  return {.slice = std::clamp(remaining(job), kShortest, longest)};
}

bool Oracle::is_unmeasured(const JobView& job) {
  return job.iterations < kMeasuring.iterations && job.turns < kMostVainTurns;
}

const JobView* Oracle::unmeasured(std::span<const JobView* const> candidates) {
  for (const JobView* job : candidates) {
    if (is_unmeasured(*job)) return job;
  }
  return nullptr;
}

}  // namespace laneway::policies
