// The state of torch in which nodes run, on this thread, for a scope; the destructor restores the
// former state.
//
// DispatchScope: below autograd, autocast, functorch and Python's modes, not in inference mode,
// gradient mode on because oneDNN's recurrent layers test it (OperatorCall turns it off for those
// that were captured with it off).
//
// NumericScope: a DispatchScope, and the numeric state of torch that a graph recorded (thread
// count, math flags, default dtype). Thread count and flushing of denormals belong to the thread.
// The other flags are process-wide in torch: the core never runs jobs whose flags differ at the
// same time, but the user's eager work during such an iteration sees the job's flags. The first
// scope sets them and the last one restores the values that the first found, so the end of one
// iteration does not change the flags during another; a flag that already has its value is not
// written. What another thread sets meanwhile is in force for the rest of the iteration, which is
// logged once, and outlasts the scopes. Both constructors throw nothing.
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>

#include "adaptor/scope/thread_count.h"
#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

class DispatchScope {
 public:
  DispatchScope();
  ~DispatchScope();
  DispatchScope(const DispatchScope&) = delete;
  DispatchScope& operator=(const DispatchScope&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard dispatch_;
  c10::AutoGradMode grad_mode_;
  const bool inference_mode_;  // the caller's mode
};

class NumericScope {
 public:
  explicit NumericScope(const lanes::NumericContext& wanted);
  ~NumericScope();
  NumericScope(const NumericScope&) = delete;
  NumericScope& operator=(const NumericScope&) = delete;

 private:
  const DispatchScope dispatch_;
  const lanes::NumericContext wanted_;
  const ThreadCount threads_;
  const bool flushed_before_;  // on this thread
};

// Whether torch's process-wide flags are still those that the open scopes set. Requires: a
// scope is open.
bool numeric_flags_hold();

// Two jobs with equal keys may run at the same time: their contexts differ only in settings of the
// thread.
uint64_t context_key(const lanes::NumericContext& context);

// Makes torch create its process-wide state now and not at its first use. At exit such state is
// destroyed in the reverse order of its creation: state that is created later would be destroyed
// before the handlers run that stop the lanes.
void wake_torch();

}  // namespace laneway::adaptor
