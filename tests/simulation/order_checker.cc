#include "tests/simulation/order_checker.h"

#include <algorithm>

namespace laneway::simulation {
namespace {

using namespace lanes;  // NOLINT: the vocabulary of this file

int64_t mean_ns(const SeenJob& job) {
  if (job.measured > 0 && job.measured_ns > 0) {
    return job.measured_ns / static_cast<int64_t>(job.measured);
  }
  if (job.iterations > 0 && job.busy_ns > 0) {
    return job.busy_ns / static_cast<int64_t>(job.iterations);
  }
  return job.offer.iteration_estimate.ns();
}

// What is left of its total; or, when that is not known, as much again as it had, and of an
// inference job one iteration.
int64_t remaining_ns(const SeenJob& job) {
  const uint64_t total = job.offer.options.total_iterations;
  if (total > job.counted && mean_ns(job) > 0) {
    return static_cast<int64_t>(total - job.counted) * mean_ns(job);
  }
  const bool by_request = total == 0 && job.offer.options.job_class == JobClass::inference;
  return by_request ? mean_ns(job) : job.busy_ns;
}

// Requests queue; trainings go by arrival.
uint64_t turn_of(const SeenJob& job) {
  const JobOptions& options = job.offer.options;
  const bool by_request = options.job_class == JobClass::inference && options.total_iterations == 0;
  return by_request ? job.queue : job.arrival;
}

bool is_newcomer(const SeenJob& job) { return job.iterations < 2 && job.turns < 4; }
bool is_best_effort(const SeenJob& job) {
  return job.offer.options.job_class == JobClass::best_effort;
}

}  // namespace

bool OrderChecker::before(const SeenJob& a, const SeenJob& b, bool admission) const {
  if (!admission && is_best_effort(a) != is_best_effort(b)) return is_best_effort(b);
  if (order_ == Order::srtf) {
    if (!admission && is_newcomer(a) != is_newcomer(b)) return is_newcomer(a);
    const bool measured = admission || !is_newcomer(a);
    if (measured && remaining_ns(a) != remaining_ns(b)) return remaining_ns(a) < remaining_ns(b);
  }
  return admission ? turn_of(a) < turn_of(b) : a.arrival < b.arrival;
}

std::string OrderChecker::check_refusal(const Observed& seen, const RefuseJob& refuse) const {
  const auto job = seen.jobs.find(refuse.job);
  if (job == seen.jobs.end()) return "a job is refused that was not offered";
  if (refuse.reason.code == ReasonCode::too_many_jobs) {
    return seen.jobs.size() > max_jobs_ ? "" : "too many jobs, though there are few";
  }
  if (refuse.reason.code == ReasonCode::no_exchange) {
    const bool could_leave = seen.store > 0 || seen.spill > 0;
    const bool is_new = !job->second.lane.valid() && !job->second.away;
    return could_leave && is_new && seen.jobs.size() > 1 ? "" : "refused though all could leave";
  }
  if (refuse.reason.code != ReasonCode::larger_than_pool) return "refused without a reason";
  // A quarantined job counts with what it will need.
  const SeenJob& refused = job->second;
  const int64_t region = refused.need_when_released.value_or(refused.region_need);
  if (refused.image_need + region <= std::min(seen.capacity, seen.wanted_capacity) - seen.reserve) {
    return "a job is refused that fits an empty pool";
  }
  return "";
}

bool OrderChecker::urgency_is_priority(const Observed& seen, const Turn& turn) {
  const auto priority = [&](JobId job) { return seen.jobs.at(job).offer.options.priority; };
  LaneSet below = 0;
  LaneSet above = 0;
  for (const auto& [id, open] : seen.turns) {
    if (priority(open.job) < priority(turn.job)) below |= set_of(open.lane);
    if (priority(open.job) > priority(turn.job)) above |= set_of(open.lane);
  }
  return turn.envelope.interrupts == below && turn.envelope.yields_to == above;
}

std::string OrderChecker::action(const Observed& seen, const Action& action) {
  if (const auto* refuse = std::get_if<RefuseJob>(&action)) return check_refusal(seen, *refuse);
  if (order_ == Order::none) return "";
  if (const auto* admit = std::get_if<AdmitJob>(&action)) {
    const SeenJob& admitted = seen.jobs.at(admit->job);
    for (const auto& [id, job] : seen.jobs) {
      if (job.waits() && before(job, admitted, /*admission=*/true))
        return "a job is admitted out of order";
    }
  }
  const auto* grant = std::get_if<GrantTurn>(&action);
  if (grant != nullptr && !urgency_is_priority(seen, grant->turn)) {
    return "who interrupts whom is not by priority";
  }
  if (grant != nullptr && one_context_) {
    const SeenJob& granted = seen.jobs.at(grant->turn.job);
    for (const auto& [id, job] : seen.jobs) {
      if (job.lane != granted.lane || !seen.eligible(job)) continue;
      const JobOptions& mine = granted.offer.options;
      const JobOptions& others = job.offer.options;
      const auto is_last = [](const JobOptions& one) {
        return one.job_class == JobClass::best_effort;
      };
      if (is_last(mine) == is_last(others) && others.priority != mine.priority) {
        if (others.priority > mine.priority) return "a turn is granted before a more urgent job's";
        continue;
      }
      if (before(job, granted, /*admission=*/false)) return "a turn is granted out of order";
    }
  }
  return "";
}

std::string OrderChecker::settled(const Observed& seen, const Event& /*event*/) {
  if (order_ != Order::fifo || seen.lanes.size() >= max_lanes_) return "";
  if (seen.wanted_capacity < seen.capacity) return "";
  const SeenJob* head = nullptr;
  for (const auto& [id, job] : seen.jobs) {
    if (job.lane.valid()) {
      // While one is held for memory nobody new is let in.
      if (job.placed && !job.leaving && !job.ended && !seen.fits_lane(job)) return "";
      continue;
    }
    if (job.waits() && (head == nullptr || turn_of(job) < turn_of(*head))) head = &job;
  }
  if (head == nullptr) return "";
  // Where the limit lets it have no lane of its own, it waits for a lane that grows between two
  // turns.
  const bool any_recalled = std::any_of(seen.lanes.begin(), seen.lanes.end(),
                                        [](const auto& lane) { return lane.second.recalled; });
  if (!seen.may_be_in(*head, LaneId()) && any_recalled) return "";
  const int64_t need = head->image_need + head->region_need;
  if (seen.claimed() - seen.on_demand() + need > seen.capacity || seen.largest_gap() < need)
    return "";
  return "the head of the queue waits (job " + std::to_string(head->offer.job.value()) +
         ") and there is room";
}

}  // namespace laneway::simulation
