#include "tests/simulation/order_checker.h"

#include <algorithm>

namespace laneway::simulation {
namespace {

using namespace lanes;  // NOLINT: the vocabulary of this file

constexpr int64_t kUnknown = INT64_MAX;

int64_t remaining_ns(const SeenJob& job) {
  int64_t mean = job.offer.iteration_estimate.ns();
  if (job.iterations > 0 && job.busy_ns > 0) {
    mean = job.busy_ns / static_cast<int64_t>(job.iterations);
  }
  if (job.offer.options.total_iterations == 0 || mean == 0) return kUnknown;
  const int64_t left = static_cast<int64_t>(job.offer.options.total_iterations) -
                       static_cast<int64_t>(job.iterations);
  return std::max<int64_t>(left, 0) * mean;
}

}  // namespace

bool OrderChecker::before(const SeenJob& a, const SeenJob& b, bool admission) const {
  if (order_ == Order::srtf && remaining_ns(a) != remaining_ns(b)) {
    return remaining_ns(a) < remaining_ns(b);
  }
  return admission ? a.queue < b.queue : a.arrival < b.arrival;
}

std::string OrderChecker::check_refusal(const Observed& seen, const RefuseJob& refuse) const {
  const auto job = seen.jobs.find(refuse.job);
  if (job == seen.jobs.end()) return "a job is refused that was not offered";
  if (refuse.reason.code == ReasonCode::too_many_jobs) {
    return seen.jobs.size() > max_jobs_ ? "" : "too many jobs, though there are few";
  }
  if (refuse.reason.code != ReasonCode::larger_than_pool) return "refused without a reason";
  const int64_t need = job->second.image_need + job->second.region_need;
  if (need <= std::min(seen.capacity, seen.wanted_capacity) - seen.reserve) {
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
  if (grant != nullptr && in_order_) {
    const SeenJob& granted = seen.jobs.at(grant->turn.job);
    for (const auto& [id, job] : seen.jobs) {
      if (job.lane != granted.lane || !seen.eligible(job)) continue;
      const int32_t mine = granted.offer.options.priority;
      const int32_t others = job.offer.options.priority;
      if (others > mine) return "a turn is granted before a more urgent job's";
      if (others == mine && before(job, granted, /*admission=*/false))
        return "a turn is granted out of order";
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
    if (job.waits() && (head == nullptr || job.queue < head->queue)) head = &job;
  }
  if (head == nullptr) return "";
  const int64_t need = head->image_need + head->region_need;
  if (seen.claimed() + need > seen.capacity || seen.largest_gap() < need) return "";
  return "the head of the queue waits (job " + std::to_string(head->offer.job.value()) +
         ") and there is room";
}

}  // namespace laneway::simulation
