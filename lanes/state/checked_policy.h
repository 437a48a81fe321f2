// CheckedPolicy: the policy, and a first-come policy that answers in its place when an answer
// cannot be carried out. Safety does not depend on a policy. Part of the core; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lanes/state/core_state.h"
#include "lanes/state/learnt.h"
#include "policies/job_advice.h"
#include "policies/policy.h"

namespace laneway::lanes {

// A policy's name as a number, which says whose a note is (learnt.h). Never 0.
uint64_t note_key(std::string_view policy);

class CheckedPolicy {
 public:
  // Requires: `policy` is not null.
  explicit CheckedPolicy(std::unique_ptr<policies::Policy> policy);
  // `policy` answers from now on. Requires: it is not null.
  void replace(std::unique_ptr<policies::Policy> policy);

  // Returns a waiting job that was not tried since memory changed, with an existing lane or none;
  // or no job.
  policies::AdmitDecision admit(CoreState& core);
  // Returns one of `candidates`, and a budget of at most config.longest_slice; what is no budget is
  // refused and taken for none. Requires: there is a candidate; `running` is one of them, or null.
  policies::PickDecision pick(const CoreState& core, const Lane& lane,
                              std::span<const policies::JobView* const> candidates,
                              const policies::JobView* running = nullptr);

  // Returns one of the candidates, or no job. Requires: there is a candidate.
  policies::EvictDecision evict(const CoreState& core, const policies::EvictQuestion& question);

  // Where the job stands in the one order over all lanes.
  policies::TurnRank turn_rank(const CoreState& core, const policies::JobView& job) const {
    return policy_->turn_rank(core.now, core.view, job);
  }
  // A job may interrupt those of less urgency.
  int64_t urgency(const CoreState& core, const policies::JobView& job) const {
    return policy_->urgency(core.now, core.view, job);
  }
  // Whether jobs may be put into one lane.
  bool shares() const { return policy_->shares(); }
  // The waiting jobs in the order in which the policy means to admit them.
  std::vector<const policies::JobView*> admission_order(const CoreState& core) const;
  // Whether the first of two waiting jobs comes earlier in it.
  bool goes_before(const CoreState& core, const policies::JobView& one,
                   const policies::JobView& other) const {
    return place_of(core, one) < place_of(core, other);
  }
  // The place of a waiting job in that order, from 1.
  uint32_t position_of(const CoreState& core, const policies::JobView& job) const;
  // The job is over.
  void gone(JobId job);
  // What the policy keeps of a job whose turn begins, for a core after this one: its note and its
  // lane. Nothing if it keeps nothing.
  std::optional<Learnt> learnt(const policies::JobView& job) const;
  // The same, as the core before this one learnt it, if by this policy in the job's lane.
  void recall(const CoreState& core, const policies::JobView& job, const Learnt& learnt);
  // By how much the job will miss its deadline, as far as the policy knows.
  std::optional<Duration> late(const CoreState& core, const policies::JobView& job) const;

  // Whether somebody outside says the order, and is to be told of the jobs.
  bool is_advised() const { return policy_->advised() != nullptr; }
  // What it said of the job; nonsense is refused, and what nobody asked for is ignored. Returns
  // whether the job's place is another one.
  bool advise(const CoreState& core, const policies::JobView& job,
              const policies::JobAdvice& advice);
  // It is there from now on, or not any more. Only for a policy that is advised.
  void set_adviser(bool is_there);

  std::string_view name() const { return policy_->name(); }
  // How many answers were replaced.
  uint64_t faults() const { return faults_; }

 private:
  // In the order of admission.
  using Place = std::pair<int64_t, uint64_t>;
  Place place_of(const CoreState& core, const policies::JobView& job) const;

  std::unique_ptr<policies::Policy> policy_;
  std::unique_ptr<policies::Policy> fallback_;
  uint64_t note_key_ = 0;  // of the policy's notes
  uint64_t faults_ = 0;
};

}  // namespace laneway::lanes
