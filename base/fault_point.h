// Fault points: places in the service's programs where a test can have the process killed (SIGKILL
// to itself, as a crash or the kernel's memory killer would), so that recovery is tried at every
// step and not only where a signal happens to arrive. Armed by text, "broker.job_held:2" for the
// second pass, several separated by commas; not armed, a point costs one load. Points count in one
// process: whoever starts a killed process again leaves LANEWAY_FAULT out of its environment.
// Thread-safe, but arm before the threads start.
#pragma once

#include <atomic>
#include <string_view>

#include "base/result.h"

namespace laneway {

namespace fault_detail {
extern std::atomic<bool> armed;
void pass(std::string_view name);
}  // namespace fault_detail

// Forgets what was armed before. invalid_argument names the part that is not PROGRAM.POINT[:nth].
// Names are not checked against a list: one that no code passes does nothing.
Status arm_fault_points(std::string_view text);
// From LANEWAY_FAULT; nothing when it is not set.
Status arm_fault_points_from_environment();

// `name` is PROGRAM.POINT, as "worker.commit_entered". Does not return from the pass it is armed
// for.
inline void fault_point(std::string_view name) {
  if (fault_detail::armed.load(std::memory_order_relaxed)) [[unlikely]] {
    fault_detail::pass(name);
  }
}

}  // namespace laneway
