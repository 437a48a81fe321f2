#include "service/supervisor/supervisor_setup.h"

namespace laneway::service {

SupervisorTimes SupervisorTimes::scaled(double factor) {
  const auto scale = [factor](Duration& time) {
    time = Duration(static_cast<int64_t>(static_cast<double>(time.ns()) * factor));
  };
  SupervisorTimes times;
  scale(times.restart.window);
  scale(times.restart.first_delay);
  scale(times.restart.longest_delay);
  scale(times.heartbeat);
  scale(times.worker_start);
  scale(times.hang_up);
  scale(times.stop);
  scale(times.activation);
  scale(times.stopped);
  scale(times.late);
  for (Duration* each :
       {&times.lanes.look, &times.lanes.shortest, &times.lanes.unmeasured, &times.lanes.other}) {
    scale(*each);
  }
  return times;
}

}  // namespace laneway::service
