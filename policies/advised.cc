#include "policies/advised.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace laneway::policies {
namespace {

constexpr int64_t kLast = INT64_MAX;

// Whole numbers in the same order as these, equal for equal ones, and below kLast.
int64_t in_order(double value) {
  if (std::isnan(value)) return kLast;                    // sums of what is finite can be anything
  const auto bits = std::bit_cast<int64_t>(value + 0.0);  // of the two zeros one
  return bits >= 0 ? bits : bits ^ INT64_MAX;
}

// When the value `behind`, which gains so much a second on the one `before`, is below it; far in
// the future: never. Both are told apart then: what is added to large numbers in a moment can be
// nothing, and would be looked at without end.
constexpr Duration kFar = seconds(1'000'000'000);
constexpr Duration kSoonestOrder = microseconds(1);
constexpr Duration kSoonestLeaving = milliseconds(1);

Duration time_of(double behind, double before, double per_second, Duration soonest) {
  if (!(per_second > 0)) return kFar;
  const double large = std::max(std::abs(behind), std::abs(before));
  const double least = std::nextafter(large, std::numeric_limits<double>::infinity()) - large;
  const double distance = std::max(behind - before, least);
  const double seconds_left = std::clamp(distance / per_second, 0.0, kFar.seconds());
  // What is no number is far: it compares with nothing.
  if (std::isnan(seconds_left)) return kFar;
  return std::max(Duration(std::llround(seconds_left * 1e9)), soonest);
}

}  // namespace

Duration Advised::busy_until(TimePoint now, const JobView& job) {
  return job.busy + (job.running ? std::max(now - job.turn_began, Duration()) : Duration());
}

Duration Advised::waiting_until(TimePoint now, const JobView& job) {
  if (job.running || (job.lane.valid() && !job.ready)) return {};
  return std::max(now - (job.lane.valid() ? job.ready_since : job.queued_at), Duration());
}

const JobAdvice* Advised::find(const JobView& job) const {
  const auto found = is_there_ ? advice_.find(job.id) : advice_.end();
  return found == advice_.end() ? nullptr : &found->second;
}

double Advised::value_of(TimePoint now, const JobView& job, const JobAdvice& advice) {
  double value = advice.value;
  // A rate of 0 must not make a rank of the difference.
  if (advice.per_busy_s != 0) {
    value += advice.per_busy_s * (busy_until(now, job) - advice.busy).seconds();
  }
  if (advice.per_wait_s != 0) {
    value += advice.per_wait_s * (waiting_until(now, job) - advice.waiting).seconds();
  }
  return value;
}

int64_t Advised::rank(TimePoint now, const View& /*view*/, const JobView& job) const {
  if (!is_there_) return 0;
  const JobAdvice* advice = find(job);
  return advice == nullptr ? kLast : in_order(value_of(now, job, *advice));
}

AdmitDecision Advised::admit(TimePoint now, const View& view) {
  AdmitDecision decision = Ranked::admit(now, view);
  if (decision.job.valid() || view.waiting().empty()) return decision;
  // The first finds no room. Another one may be it before anything happens.
  const JobView& first = *first_of(now, view, view.waiting());
  const JobAdvice* its = find(first);
  if (its == nullptr) return decision;
  for (const JobView* job : view.waiting()) {
    const JobAdvice* advice = find(*job);
    if (advice == nullptr) continue;
    const double gains = its->per_wait_s - advice->per_wait_s;
    const Duration until =
        time_of(value_of(now, *job, *advice), value_of(now, first, *its), gains, kSoonestOrder);
    decision.again = std::min(decision.again, now + until);
  }
  return decision;
}

PickDecision Advised::pick(TimePoint now, const View& view, const PickQuestion& question) {
  PickDecision decision = Ranked::pick(now, view, question);
  const auto chosen = std::find_if(question.candidates.begin(), question.candidates.end(),
                                   [&](const JobView* job) { return job->id == decision.job; });
  if (const JobAdvice* advice = find(**chosen)) decision.budget.slice = advice->slice;
  return decision;
}

EvictDecision Advised::evict(TimePoint now, const View& view, const EvictQuestion& question) {
  EvictDecision decision = Ranked::evict(now, view, question);
  const JobAdvice* wants = find(question.wants);
  if (decision.job.valid() || wants == nullptr) return decision;
  // Nobody goes behind it; by what they have meanwhile somebody may.
  for (const EvictCandidate& one : question.candidates) {
    const JobAdvice* advice = find(*one.job);
    if (advice == nullptr) continue;
    const double loses = std::max(advice->per_busy_s, advice->per_wait_s) - wants->per_wait_s;
    const Duration until = time_of(value_of(now, question.wants, *wants),
                                   value_of(now, *one.job, *advice), loses, kSoonestLeaving);
    decision.again = std::min(decision.again, now + until);
  }
  return decision;
}

bool Advised::advise(TimePoint now, const View& view, const JobView& job, const JobAdvice& advice) {
  if (!is_there_) return false;
  const int64_t before = rank(now, view, job);
  const JobAdvice was = std::exchange(advice_[job.id], advice);
  // Who changes at another rate will have another place, if not now.
  const bool other_rates =
      was.per_busy_s != advice.per_busy_s || was.per_wait_s != advice.per_wait_s;
  return other_rates || rank(now, view, job) != before;
}

void Advised::set_adviser(bool is_there) {
  is_there_ = is_there;
  advice_.clear();
}

}  // namespace laneway::policies
