// laneway-worker: runs the lanes. Started by lanewayd, with a channel to it; torch is loaded with
// the program, so a standby has it before it is needed.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/fault_point.h"
#include "base/log.h"
#include "service/transport/supervised.h"
#include "service/worker/process/worker_server.h"

namespace {

int fail(const laneway::Error& error) {
  laneway::log_error("laneway-worker: " + error.message);
  return error.code == laneway::ErrorCode::device_lost ? laneway::service::kExitDeviceLost : 1;
}

// Lanes may still run: the process ends around them, as it would when it is killed. What lasts is
// in memory that others hold.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

int main() {
  auto supervisor = laneway::service::take_supervisor_channel("laneway-worker");
  if (!supervisor) {
    std::fprintf(stderr, "%s\n", supervisor.error().message.c_str());
    return 2;
  }
  // A client that is gone is an error of a write, not of the process.
  if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) return 1;
  if (laneway::Status armed = laneway::arm_fault_points_from_environment(); !armed) {
    return fail(armed.error());
  }
  auto server = laneway::service::WorkerServer::make(std::move(supervisor).value());
  if (!server) return fail(server.error());
  const laneway::Status served = server.value()->run();
  leave(served ? 0 : fail(served.error()));
}
