#include "service/worker/thread_team.h"

#include "adaptor/scope/thread_count.h"
#include "service/worker/worker.h"

namespace laneway::service {
namespace {

constexpr Duration kBetweenEnds = milliseconds(2);

}  // namespace

void end_callers_team(const Clock& clock) {
  thread_local TimePoint next;
  const TimePoint now = clock.now();
  if (now < next) return;
  next = now + kBetweenEnds;
  adaptor::end_thread_team();
}

void WorkerLane::rest_while_idle() {
  if (!team_used_) return wait_for_work();
  const Duration rest = worker_.shares_process_ ? kTeamRestShared : kTeamRestAlone;
  const Duration left = *team_used_ + rest - worker_.clock_.now();
  if (left.ns() > 0) return wait_for_work(left);
  team_used_.reset();
  worker_.mutex_.unlock();
  adaptor::end_thread_team();
  worker_.mutex_.lock();
}

}  // namespace laneway::service
