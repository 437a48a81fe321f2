// CheckedPolicy: the policy, and a first-come policy that answers in its place when it answers with
// what cannot be done. Safety does not depend on a policy. Part of the core; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lanes/core_state.h"
#include "policies/policy.h"

namespace laneway::lanes {

class CheckedPolicy {
 public:
  // `policy` must not be null.
  explicit CheckedPolicy(std::unique_ptr<policies::Policy> policy);
  // This policy answers from now on; it must not be null.
  void replace(std::unique_ptr<policies::Policy> policy);

  // A waiting job that was not tried since memory changed, and a lane that exists or none; or no
  // job.
  policies::AdmitDecision admit(CoreState& core);
  // One of `candidates`, which must not be empty.
  JobId pick(const CoreState& core, const Lane& lane,
             std::span<const policies::JobView* const> candidates);

  std::string_view name() const { return policy_->name(); }
  // Answers that were replaced.
  uint64_t faults() const { return faults_; }

 private:
  std::unique_ptr<policies::Policy> policy_;
  std::unique_ptr<policies::Policy> fallback_;
  uint64_t faults_ = 0;
};

}  // namespace laneway::lanes
