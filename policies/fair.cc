#include "policies/fair.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "policies/first_to_leave.h"

namespace laneway::policies {
namespace {

// Weights are checked where they come in; the least one only keeps the arithmetic defined.
double weight_of(const JobView& job) { return std::max(job.options.weight, 1e-6); }

// Whole nanoseconds are still told apart below it; no lane comes there in 30 years.
constexpr double kLargestTag = 1e18;
constexpr Duration kSoonest = milliseconds(1);

}  // namespace

Fair::Fair(PolicyOptions& options)
    : quantum_(options.time("quantum_s", milliseconds(20), seconds(3600))) {}

AdmitDecision Fair::admit(TimePoint /*now*/, const View& view) {
  if (view.waiting().empty() || view.was_tried(*view.waiting().front())) return {};
  return {.job = view.waiting().front()->id};
}

void Fair::charge(const JobView& job) {
  Clock& clock = clocks_[job.lane.value() - 1];
  const auto [found, is_new] =
      accounts_.try_emplace(job.id, Account{.lane = job.lane, .busy = job.busy, .tag = clock.time});
  Account& account = found->second;
  if (is_new) return;
  account.tag += static_cast<double>((job.busy - account.busy).ns()) / weight_of(job);
  account.busy = job.busy;
  const double turn = static_cast<double>(quantum_.ns()) / weight_of(job);
  if (account.lane != job.lane) {
    account.tag = std::clamp(account.tag, clock.time, clock.time + turn);
    account.lane = job.lane;
  }
  if (clock.alone != job.id) return;
  // What it had beyond a turn nobody else wanted.
  const auto earlier = [](const Clock& one, const Clock& other) { return one.time < other.time; };
  const Clock& latest = *std::max_element(clocks_.begin(), clocks_.end(), earlier);
  account.tag = std::min(account.tag, latest.time + turn);
  clock.time = std::max(clock.time, account.tag - turn);
}

PickDecision Fair::pick(TimePoint /*now*/, const View& view, const PickQuestion& question) {
  const TurnBudget turn{.slice = quantum_};
  if (question.running != nullptr && question.running_for < quantum_) {
    return {.job = question.running->id, .budget = turn};
  }
  clocks_.resize(view.max_lanes());
  Clock& clock = clocks_[question.lane.id.value() - 1];
  for (const JobView* job : question.candidates) charge(*job);
  const JobView* best = nullptr;
  double best_tag = 0;
  for (const JobView* job : question.candidates) {
    double& its_tag = accounts_.at(job->id).tag;
    its_tag = std::max(its_tag, clock.time);
    double tag = its_tag;
    if (job == question.running) {
      tag += static_cast<double>(question.running_for.ns()) / weight_of(*job);
    }
    const bool goes_first = best == nullptr || tag < best_tag ||
                            (tag == best_tag && job->ready_since < best->ready_since);
    if (!goes_first) continue;
    best = job;
    best_tag = tag;
  }
  LW_CHECK(best != nullptr, "who is asked whom to pick has candidates");
  clock = {.time = best_tag, .alone = question.candidates.size() == 1 ? best->id : JobId()};
  return {.job = best->id, .budget = turn};
}

TurnRank Fair::turn_rank(TimePoint now, const View& /*view*/, const JobView& job) const {
  if (job.running && now - job.turn_began < quantum_) return {.value = INT64_MIN};
  const auto found = accounts_.find(job.id);
  const double tag = found == accounts_.end() ? lane_time(job.lane) : found->second.tag;
  const double open = job.running ? static_cast<double>((now - job.turn_began).ns()) : 0;
  return {.value = static_cast<int64_t>(std::min(tag + open / weight_of(job), kLargestTag)),
          .tie = job.ready_since.ns()};
}

double Fair::lane_time(LaneId lane) const {
  const size_t slot = lane.value() - 1;
  return slot < clocks_.size() ? clocks_[slot].time : 0;
}

double Fair::tag_now(TimePoint now, const JobView& job) const {
  const auto found = accounts_.find(job.id);
  const bool is_known = found != accounts_.end() && found->second.lane == job.lane;
  const Duration charged = is_known ? found->second.busy : job.busy;
  const double tag = is_known ? found->second.tag : lane_time(job.lane);
  const Duration open = job.running ? now - job.turn_began : Duration();
  return tag + static_cast<double>((job.busy - charged + open).ns()) / weight_of(job);
}

double Fair::tag_of_comer(const JobView& job, LaneId lane) const {
  const auto found = accounts_.find(job.id);
  if (found == accounts_.end() || found->second.lane != lane) return lane_time(lane);
  const Account& account = found->second;
  return account.tag + static_cast<double>((job.busy - account.busy).ns()) / weight_of(job);
}

EvictDecision Fair::evict(TimePoint now, const View& /*view*/, const EvictQuestion& question) {
  if (const JobId idle = least_used(now, question.candidates); idle.valid()) return {.job = idle};
  EvictDecision decision;
  double most = 0;
  for (const EvictCandidate& one : question.candidates) {
    const JobView& job = *one.job;
    const double tag = tag_now(now, job);
    const double ahead = tag - tag_of_comer(question.wants, job.lane);
    const TimePoint settled = job.placed_at + quantum_;
    if (!question.overdue && settled > now) {
      decision.again = std::min(decision.again, settled);
    } else if (!question.overdue && ahead <= 0) {
      // Its tag grows while it runs; one that waits for its lane is looked at again.
      const double until_ns = job.running ? std::min(-ahead * weight_of(job), kLargestTag) : 0;
      const Duration until =
          std::max({Duration(static_cast<int64_t>(until_ns)), quantum_, kSoonest});
      decision.again = std::min(decision.again, now + until);
    } else if (!decision.job.valid() || tag > most) {
      decision.job = job.id;
      most = tag;
    }
  }
  return decision;
}

void Fair::gone(JobId job) { accounts_.erase(job); }

std::optional<PolicyNote> Fair::note(const JobView& job) const {
  const auto found = accounts_.find(job.id);
  if (found == accounts_.end() || found->second.lane != job.lane) return std::nullopt;
  return PolicyNote{.first = std::bit_cast<int64_t>(found->second.tag),
                    .second = found->second.busy.ns()};
}

// The lane's virtual time is the tag of its last turn, and they only grow.
void Fair::recall(const View& view, const JobView& job, const PolicyNote& note) {
  const auto tag = std::bit_cast<double>(note.first);
  const bool is_tag = tag >= 0 && tag <= kLargestTag;
  const Duration busy(note.second);
  if (!is_tag || busy < Duration() || busy > job.busy) return;
  accounts_[job.id] = {.lane = job.lane, .busy = busy, .tag = tag};
  clocks_.resize(view.max_lanes());
  double& lane_time = clocks_[job.lane.value() - 1].time;
  lane_time = std::max(lane_time, tag);
}

}  // namespace laneway::policies
