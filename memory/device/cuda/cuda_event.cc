#include "memory/device/cuda/cuda_event.h"

namespace laneway::memory {

EventState CudaEvent::query() const {
  if (!recorded()) return EventState::done;
  const CudaContext& context = pool_.context();
  const CudaContext::RelaxedScope scope(context);
  const CUresult state = context.driver().cuEventQuery(event_);
  if (state == CUDA_ERROR_NOT_READY) return EventState::pending;
  [[maybe_unused]] const Status remembered = context.check(state, "asking for an event");
  return EventState::done;
}

Status CudaEvent::synchronize() {
  if (!recorded()) return {};
  const CudaContext& context = pool_.context();
  const CudaContext::RelaxedScope scope(context);
  return context.check(context.driver().cuEventSynchronize(event_), "waiting for an event");
}

}  // namespace laneway::memory
