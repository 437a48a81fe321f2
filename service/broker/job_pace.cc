#include "service/broker/job_pace.h"

#include "service/broker/limits.h"

namespace laneway::service {

void JobPace::saw(TimePoint now, uint64_t iterations) {
  // Fewer than before: a worker that begins has not reported all of them yet.
  if (!mark_ || iterations < mark_->iterations) {
    mark_ = Mark{now, iterations};
    return;
  }
  const Duration passed = now - mark_->at;
  if (passed < limits::kPaceWindow) return;
  const auto done = static_cast<int64_t>(iterations - mark_->iterations);
  per_iteration_ = done > 0 ? Duration(passed.ns() / done) : Duration();
  mark_ = Mark{now, iterations};
}

}  // namespace laneway::service
