#include "lanes/state/checked_policy.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "policies/advised.h"
#include "policies/fifo.h"
#include "policies/first_to_leave.h"

namespace laneway::lanes {
namespace {

// Whether the core could do what the policy answered, memory aside.
bool is_possible(CoreState& core, const policies::AdmitDecision& decision) {
  if (!decision.job.valid()) return true;
  const Job* job = core.find_job(decision.job);
  if (job == nullptr || !job->queued()) return false;
  if (core.view.was_tried(job->view)) return false;
  return !decision.lane.valid() || core.view.lane(decision.lane) != nullptr;
}

}  // namespace

// FNV-1a, 64 bits: the same in every build, unlike std::hash.
uint64_t note_key(std::string_view policy) {
  uint64_t number = 0xcbf29ce484222325;
  for (const char c : policy) number = (number ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return number | 1;
}

CheckedPolicy::CheckedPolicy(std::unique_ptr<policies::Policy> policy)
    : fallback_(std::make_unique<policies::Fifo>()) {
  replace(std::move(policy));
}

void CheckedPolicy::replace(std::unique_ptr<policies::Policy> policy) {
  LW_CHECK(policy != nullptr, "a scheduler needs a policy");
  policy_ = std::move(policy);
  note_key_ = note_key(policy_->name());
}

policies::AdmitDecision CheckedPolicy::admit(CoreState& core) {
  const policies::AdmitDecision decision = policy_->admit(core.now, core.view);
  if (is_possible(core, decision)) return decision;
  ++faults_;
  return fallback_->admit(core.now, core.view);
}

policies::EvictDecision CheckedPolicy::evict(const CoreState& core,
                                             const policies::EvictQuestion& question) {
  const policies::EvictDecision answer = policy_->evict(core.now, core.view, question);
  if (!answer.job.valid()) return answer;
  for (const policies::EvictCandidate& one : question.candidates) {
    if (one.job->id == answer.job) return answer;
  }
  ++faults_;
  return fallback_->evict(core.now, core.view, question);
}

policies::PickDecision CheckedPolicy::pick(const CoreState& core, const Lane& lane,
                                           std::span<const policies::JobView* const> candidates,
                                           const policies::JobView* running) {
  const policies::PickQuestion question{
      .lane = *core.view.lane(lane.id),
      .candidates = candidates,
      .running = running,
      .running_for = running == nullptr ? Duration() : core.now - lane.granted_at};
  policies::PickDecision answer = policy_->pick(core.now, core.view, question);
  const Job* chosen = core.jobs.find(answer.job);
  const bool is_candidate = chosen != nullptr && std::find(candidates.begin(), candidates.end(),
                                                           &chosen->view) != candidates.end();
  const bool is_budget = answer.budget.slice >= Duration();
  if (!is_candidate || !is_budget) ++faults_;
  if (!is_candidate) answer = fallback_->pick(core.now, core.view, question);
  if (!is_budget) answer.budget = {};
  answer.budget.slice = std::min(answer.budget.slice, core.config.longest_slice);
  return answer;
}

CheckedPolicy::Place CheckedPolicy::place_of(const CoreState& core,
                                             const policies::JobView& job) const {
  return {policy_->admission_rank(core.now, core.view, job), policies::turn_of(job)};
}

std::vector<const policies::JobView*> CheckedPolicy::admission_order(const CoreState& core) const {
  std::vector<std::pair<Place, const policies::JobView*>> ranked;
  for (const policies::JobView* job : core.view.waiting()) {
    ranked.emplace_back(place_of(core, *job), job);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<const policies::JobView*> order;
  order.reserve(ranked.size());
  for (const auto& [place, job] : ranked) order.push_back(job);
  return order;
}

uint32_t CheckedPolicy::position_of(const CoreState& core, const policies::JobView& job) const {
  const Place place = place_of(core, job);
  const auto& waiting = core.view.waiting();
  const auto before = std::count_if(waiting.begin(), waiting.end(), [&](const auto* other) {
    return place_of(core, *other) < place;
  });
  return static_cast<uint32_t>(before) + 1;
}

void CheckedPolicy::gone(JobId job) {
  policy_->gone(job);
  fallback_->gone(job);
}

std::optional<Learnt> CheckedPolicy::learnt(const policies::JobView& job) const {
  const std::optional<policies::PolicyNote> note = policy_->note(job);
  if (!note) return std::nullopt;
  return Learnt{.policy = note_key_, .lane = job.lane, .note = *note};
}

void CheckedPolicy::recall(const CoreState& core, const policies::JobView& job,
                           const Learnt& learnt) {
  const bool is_its_own = learnt.policy == note_key_ && learnt.lane == job.lane;
  if (is_its_own && job.lane.valid()) policy_->recall(core.view, job, learnt.note);
}

bool CheckedPolicy::advise(const CoreState& core, const policies::JobView& job,
                           const policies::JobAdvice& advice) {
  policies::Advised* advised = policy_->advised();
  if (advised == nullptr) return false;
  if (advice.is_finite() && advice.slice >= Duration()) {
    return advised->advise(core.now, core.view, job, advice);
  }
  ++faults_;
  return false;
}

void CheckedPolicy::set_adviser(bool is_there) {
  LW_CHECK(is_advised(), "only a policy that is advised has an adviser");
  policy_->advised()->set_adviser(is_there);
}

std::optional<Duration> CheckedPolicy::late(const CoreState& core,
                                            const policies::JobView& job) const {
  return policy_->late(core.now, core.view, job);
}

}  // namespace laneway::lanes
