#include "lanes/checked_policy.h"

#include <utility>

#include "base/check.h"
#include "policies/fifo.h"

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

CheckedPolicy::CheckedPolicy(std::unique_ptr<policies::Policy> policy)
    : fallback_(std::make_unique<policies::Fifo>()) {
  replace(std::move(policy));
}

void CheckedPolicy::replace(std::unique_ptr<policies::Policy> policy) {
  LW_CHECK(policy != nullptr, "a scheduler needs a policy");
  policy_ = std::move(policy);
}

policies::AdmitDecision CheckedPolicy::admit(CoreState& core) {
  const policies::AdmitDecision decision = policy_->admit(core.now, core.view);
  if (is_possible(core, decision)) return decision;
  ++faults_;
  return fallback_->admit(core.now, core.view);
}

JobId CheckedPolicy::evict(const CoreState& core, const policies::EvictQuestion& question) {
  const JobId answer = policy_->evict(core.now, core.view, question);
  if (!answer.valid()) return answer;
  for (const policies::EvictCandidate& one : question.candidates) {
    if (one.job->id == answer) return answer;
  }
  ++faults_;
  return fallback_->evict(core.now, core.view, question);
}

JobId CheckedPolicy::pick(const CoreState& core, const Lane& lane,
                          std::span<const policies::JobView* const> candidates) {
  const policies::PickQuestion question{*core.view.lane(lane.id), candidates};
  const JobId answer = policy_->pick(core.now, core.view, question);
  for (const policies::JobView* job : candidates) {
    if (job->id == answer) return answer;
  }
  ++faults_;
  return fallback_->pick(core.now, core.view, question);
}

}  // namespace laneway::lanes
