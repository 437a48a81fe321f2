// NumericScope: sets what a graph recorded of torch's numeric state (thread count, math flags) and
// the dispatch state in which nodes run (below autograd, autocast and functorch, gradient mode on
// because oneDNN's recurrent layers look at it) for a scope, on this thread, and puts back what was
// there. The flags are process-wide in torch: the core never runs jobs whose flags differ at the
// same time, and a flag that already has its value is not touched.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>

#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

class NumericScope {
 public:
  explicit NumericScope(const lanes::NumericContext& wanted);
  ~NumericScope();
  NumericScope(const NumericScope&) = delete;
  NumericScope& operator=(const NumericScope&) = delete;

 private:
  lanes::NumericContext before_;
  lanes::NumericContext wanted_;
  c10::impl::ForceDispatchKeyGuard dispatch_;
  c10::AutoGradMode grad_mode_;
};

// Equal keys mean that two jobs may run at the same time (all flags but the thread count).
uint64_t context_key(const lanes::NumericContext& context);

}  // namespace laneway::adaptor
