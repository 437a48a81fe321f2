#include "service/worker/common/thread_team.h"

#include "adaptor/scope/fork_gate.h"
#include "adaptor/scope/thread_team.h"

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

bool caller_can_have_team() { return !adaptor::thread_has_forked(); }

}  // namespace laneway::service
