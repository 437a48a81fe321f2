// The state of torch in which nodes run, for a scope, on this thread; what was there is put back.
//
// DispatchScope: below autograd, autocast, functorch and Python's modes, not in inference mode,
// gradient mode on because oneDNN's recurrent layers look at it (OperatorCall turns it off for
// those that were captured so).
//
// NumericScope: that, and what a graph recorded of torch's numeric state (thread count, math
// flags, default dtype). Thread count and flushing of denormals belong to the thread. The other
// flags are process-wide in torch: the core never runs jobs whose flags differ at the same time,
// but eager work of the user's that runs at the very time of such an iteration sees the job's. The
// first scope in sets them and the last one out puts back what the first found, so that an
// iteration that ends does not change the flags under another one's feet; a flag that already has
// its value is not touched.
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
  const bool inference_mode_;  // the caller's
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

// Equal keys mean that two jobs may run at the same time (what differs belongs to the thread).
uint64_t context_key(const lanes::NumericContext& context);

// Has torch make its process-wide state now rather than at its first use. Such state is destroyed
// at exit in the reverse order of its making: before handlers that were registered earlier, which
// would have stopped the lanes that use it.
void wake_torch();

}  // namespace laneway::adaptor
