#include "policies/common_rules.h"

#include <algorithm>
#include <utility>

#include "policies/first_to_leave.h"

namespace laneway::policies {
namespace {

// While others wait: as long as nobody goes first. The core has a longest one.
constexpr Duration kLongestSlice = seconds(3600);
constexpr TurnBudget kOneIteration{.iterations = 1};
// Sums and products of them stay far from overflow.
constexpr Duration kLongestWork = Duration(INT64_MAX / 64);
constexpr Duration kLongestSwitch = seconds(100'000);

bool is_best_effort(const JobView* job) { return job->options.job_class == JobClass::best_effort; }

}  // namespace

CommonRules::CommonRules(PolicyOptions& options, std::unique_ptr<Policy> rule)
    : rule_(std::move(rule)),
      ages_(options.choice("age", {"on", "off"}) == 0),
      age_(options.time("age_s", seconds(1), seconds(1'000'000))),
      reserve_(options.time("reserve_s", seconds(600), seconds(100'000'000))) {
  shares_ = options.flag("share", true);
}

const JobView* CommonRules::eldest(const View& view) {
  const auto& waiting = view.waiting();
  const auto found = std::min_element(
      waiting.begin(), waiting.end(),
      [](const JobView* a, const JobView* b) { return a->queued_at < b->queued_at; });
  return found == waiting.end() ? nullptr : *found;
}

Duration CommonRules::work_in_front(TimePoint now, const View& view, const JobView& job) const {
  const auto place = [&](const JobView& one) {
    return std::pair(rule_->admission_rank(now, view, one), turn_of(one));
  };
  const auto its = place(job);
  double front_ns = 0;
  const auto add = [&](const JobView* one) {
    if (one->remaining() && place(*one) < its) front_ns += static_cast<double>(one->remaining_ns);
  };
  for (const JobView* one : view.waiting()) add(one);
  for (const LaneView& lane : view.lane_slots()) {
    for (const JobView* one : lane.jobs) add(one);
  }
  const double each_ns = front_ns / std::max(view.open_lanes(), 1U);
  return Duration(static_cast<int64_t>(std::min(each_ns, static_cast<double>(kLongestWork.ns()))));
}

TimePoint CommonRules::outside_due(TimePoint now, const View& view, const JobView& job) const {
  const TimePoint earliest = job.queued_at + reserve_;
  if (earliest > now) return earliest;
  Duration wait;
  if (view.pool().may_leave) {
    const auto others = static_cast<int64_t>(view.waiting().size());
    // As much as its image and its region has to leave for it, perhaps.
    const Bytes moves = job.persistent + job.ephemeral;
    const Duration a_switch = std::min(view.transfers().there_and_back(moves), kLongestSwitch);
    wait = a_switch * (kShare * kStay * others);
  } else {
    wait = work_in_front(now, view, job) * kShare;
  }
  return job.queued_at + std::max(reserve_, wait);
}

const JobView* CommonRules::overdue_outside(TimePoint now, const View& view) {
  if (!ages_ || view.waiting().empty()) return nullptr;
  const auto& waiting = view.waiting();
  const auto kept = std::find_if(waiting.begin(), waiting.end(),
                                 [this](const JobView* job) { return job->queue == overdue_; });
  if (kept != waiting.end()) return *kept;
  const JobView* first = eldest(view);
  if (outside_due(now, view, *first) > now) return nullptr;
  overdue_ = first->queue;
  return first;
}

AdmitDecision CommonRules::admit(TimePoint now, const View& view) {
  AdmitDecision decision;
  TimePoint again = TimePoint::never();
  if (const JobView* first = overdue_outside(now, view); first != nullptr) {
    if (view.was_tried(*first)) return {};
    decision = {.job = first->id, .overdue = view.pool().may_leave};
  } else {
    decision = rule_->admit(now, view);
    if (ages_ && !view.waiting().empty()) again = outside_due(now, view, *eldest(view));
  }
  decision.again = std::min(decision.again, again);
  decision.may_share = decision.may_share && shares();
  return decision;
}

TimePoint CommonRules::due(const JobView& job, const PickQuestion& question) const {
  const auto others = static_cast<int64_t>(question.candidates.size() - 1);
  const Duration iteration = std::min(job.mean_iteration_time(), kLongestSlice);
  return job.ready_since + std::max(age_, iteration * kShare) * others;
}

const JobView* CommonRules::overdue(TimePoint now, const PickQuestion& question) const {
  const JobView* first = nullptr;
  for (const JobView* job : question.candidates) {
    if (job == question.running || may_be_due(*job, question) > now) continue;
    if (first != nullptr && job->ready_since >= first->ready_since) continue;
    if (due(*job, question) <= now) first = job;
  }
  return first;
}

PickDecision CommonRules::pick(TimePoint now, const View& view, const PickQuestion& question) {
  if (!ages_) return ask_rule(now, view, question);
  aged_.resize(view.max_lanes());
  JobId& aged = aged_[question.lane.id.value() - 1];
  const bool goes_on = question.running != nullptr && question.running->id == aged;
  const bool has_rivals = question.candidates.size() > 1;
  const JobView* first = goes_on ? question.running : has_rivals ? overdue(now, question) : nullptr;
  if (first != nullptr) {
    aged = first->id;
    return {.job = first->id, .budget = kOneIteration};
  }
  aged = {};
  PickDecision decision = ask_rule(now, view, question);
  bound(now, question, decision);
  return decision;
}

bool CommonRules::are_equal(TimePoint now, const View& view,
                            std::span<const JobView* const> all) const {
  const bool best_effort = is_best_effort(all.front());
  const int64_t urgency = rule_->urgency(now, view, *all.front());
  return std::all_of(all.begin() + 1, all.end(), [&](const JobView* one) {
    return is_best_effort(one) == best_effort && rule_->urgency(now, view, *one) == urgency;
  });
}

void CommonRules::keep_foremost(TimePoint now, const View& view,
                                std::span<const JobView* const> all) {
  foremost_.clear();
  bool only_best_effort = true;
  int64_t most = INT64_MIN;
  for (const JobView* one : all) {
    const bool best_effort = is_best_effort(one);
    if (best_effort && !only_best_effort) continue;
    const int64_t urgency = rule_->urgency(now, view, *one);
    const bool first_of_class = only_best_effort && !best_effort;
    if (!first_of_class && urgency < most) continue;
    if (first_of_class || urgency > most) foremost_.clear();
    only_best_effort = best_effort;
    most = urgency;
    foremost_.push_back(one);
  }
}

PickDecision CommonRules::ask_rule(TimePoint now, const View& view, const PickQuestion& question) {
  PickQuestion asked = question;
  if (!are_equal(now, view, question.candidates)) {
    keep_foremost(now, view, question.candidates);
    asked.candidates = foremost_;
  }
  const bool goes_on =
      question.running != nullptr && std::find(asked.candidates.begin(), asked.candidates.end(),
                                               question.running) != asked.candidates.end();
  if (!goes_on) asked.running = nullptr;
  PickDecision decision = rule_->pick(now, view, asked);
  if (!decision.budget.is_bound()) decision.budget.slice = kLongestSlice;
  return decision;
}

void CommonRules::bound(TimePoint now, const PickQuestion& question, PickDecision& decision) const {
  TimePoint next = TimePoint::never();
  for (const JobView* job : question.candidates) {
    if (job->id == decision.job || may_be_due(*job, question) >= next) continue;
    next = std::min(next, due(*job, question));
  }
  const Duration left = std::max(next - now, kShortestSlice);
  Duration& slice = decision.budget.slice;
  slice = slice > Duration() ? std::min(slice, left) : left;
}

int64_t CommonRules::admission_rank(TimePoint now, const View& view, const JobView& job) const {
  const bool is_due = ages_ && (job.queue == overdue_ || outside_due(now, view, job) <= now);
  if (is_due) return INT64_MIN;
  return std::max(rule_->admission_rank(now, view, job), INT64_MIN + 1);
}

TurnRank CommonRules::turn_rank(TimePoint now, const View& view, const JobView& job) const {
  TurnRank rank = rule_->turn_rank(now, view, job);
  rank.best_effort = is_best_effort(&job);
  rank.less_urgent = ~rule_->urgency(now, view, job);
  return rank;
}

EvictDecision CommonRules::evict(TimePoint now, const View& view, const EvictQuestion& question) {
  return rule_->evict(now, view, question);
}

void CommonRules::gone(JobId job) {
  std::replace(aged_.begin(), aged_.end(), job, JobId());
  rule_->gone(job);
}

std::optional<Duration> CommonRules::late(TimePoint now, const View& view,
                                          const JobView& job) const {
  return rule_->late(now, view, job);
}

}  // namespace laneway::policies
