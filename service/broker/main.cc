// laneway-broker: started by lanewayd, ends at its Stop message, or when lanewayd is gone.
#include <malloc.h>

#include <csignal>
#include <utility>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "service/broker/broker.h"
#include "service/transport/supervised.h"

int main() {
  using namespace laneway;  // NOLINT: a program's main
  auto supervisor = service::take_supervisor_channel("laneway-broker");
  if (!supervisor) {
    log_error(supervisor.error().message);
    return 2;
  }
  if (Status armed = arm_fault_points_from_environment(); !armed) {
    log_error(armed.error().message);
    return 2;
  }
  // Doorbells are rung for clients who may be gone.
  std::signal(SIGPIPE, SIG_IGN);
  // A trace that meets the limit of file sizes ends like one on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  // A status of many jobs takes and gives back a few large pieces: they stay with this process
  // instead of being made of new pages each time.
  ::mallopt(M_MMAP_THRESHOLD, 8 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 16 << 20);
  const SteadyClock clock;
  service::Broker broker(std::move(supervisor).value(), clock);
  while (broker.step(seconds(60))) {
  }
  if (broker.result().ok()) return 0;
  log_error("the broker ends: " + broker.result().error().message);
  return 1;
}
