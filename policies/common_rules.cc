#include "policies/common_rules.h"

#include <algorithm>
#include <utility>

namespace laneway::policies {
namespace {

// While others wait: as long as nobody goes first. The core has a longest one.
constexpr Duration kLongestSlice = seconds(3600);
constexpr TurnBudget kOneIteration{.iterations = 1};

bool is_best_effort(const JobView* job) { return job->options.job_class == JobClass::best_effort; }

}  // namespace

CommonRules::CommonRules(PolicyOptions& options, std::unique_ptr<Policy> rule)
    : rule_(std::move(rule)),
      ages_(options.choice("age", {"on", "off"}) == 0),
      age_(options.time("age_s", seconds(1), seconds(1'000'000))),
      reserve_(options.time("reserve_s", seconds(600), seconds(100'000'000))),
      share_(options.flag("share", true)) {
  if (rule_->separates()) return;
  if (options.choice("beside", {"always", "measured"}) == 1) pairs_.emplace(options);
}

Beside CommonRules::beside(TimePoint now, const View& view, const JobView& running,
                           const JobView& wants) {
  if (!pairs_) return rule_->beside(now, view, running, wants);
  return pairs_->beside(now, view, running, wants, Oracle());
}

AdmitDecision CommonRules::admit(TimePoint now, const View& view) {
  AdmitDecision decision;
  const JobView* head = view.waiting().empty() ? nullptr : view.waiting().front();
  if (head != nullptr && is_reserved(now, *head)) {
    if (!view.was_tried(*head)) decision.job = head->id;
  } else {
    decision = rule_->admit(now, view);
  }
  decision.may_share = decision.may_share && share_;
  return decision;
}

TimePoint CommonRules::due(const JobView& job, const PickQuestion& question) const {
  return job.ready_since + age_ * static_cast<int64_t>(question.candidates.size() - 1);
}

const JobView* CommonRules::overdue(TimePoint now, const PickQuestion& question) const {
  const JobView* first = nullptr;
  for (const JobView* job : question.candidates) {
    if (job == question.running || due(*job, question) > now) continue;
    if (first == nullptr || job->ready_since < first->ready_since) first = job;
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
    if (job->id != decision.job) next = std::min(next, due(*job, question));
  }
  const Duration left = std::max(next - now, kShortestSlice);
  Duration& slice = decision.budget.slice;
  slice = slice > Duration() ? std::min(slice, left) : left;
}

int64_t CommonRules::admission_rank(TimePoint now, const View& view, const JobView& job) const {
  if (is_reserved(now, job)) return INT64_MIN;
  return std::max(rule_->admission_rank(now, view, job), INT64_MIN + 1);
}

JobId CommonRules::evict(TimePoint now, const View& view, const EvictQuestion& question) {
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
