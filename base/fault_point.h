// Fault points: places in the service's programs where a test can have the process killed (SIGKILL
// to itself, as a crash or the kernel's memory killer would), so that recovery is tried at every
// step and not only where a signal happens to arrive. A text arms points: "broker.job_held:2" for
// the second pass; commas separate several. Behind it, "=segv" or "=abrt" raises that signal in the
// thread instead, "=exit" calls exit(1) there, as libraries do that give up, "=stop" stops the
// process (SIGSTOP) until somebody continues it, "=hang" keeps the thread there for ever:
// "worker.node:9=stop", and "=while:PATH" as long as that file exists, at that pass and at all
// later ones (for a disk that stalls, and for what is done just then); the thread makes PATH.here
// first, so that others know that it stays. A point that is not armed costs one load. Passes are
// counted per process, so a program that starts a killed process again must leave LANEWAY_FAULT out
// of its environment. Thread-safe. Requires: points are armed before threads start.
#pragma once

#include <atomic>
#include <string_view>

#include "base/result.h"

namespace laneway {

namespace fault_detail {
extern std::atomic<bool> armed;
void pass(std::string_view name);
}  // namespace fault_detail

// Arms the points of `text`, and disarms all others. invalid_argument names the part that is not
// PROGRAM.POINT[:nth][=segv|=abrt|=exit|=stop|=hang|=while:PATH]. Names are not checked against a
// list: one that no code passes does nothing.
Status arm_fault_points(std::string_view text);
// Arms the points of LANEWAY_FAULT; none when it is not set.
Status arm_fault_points_from_environment();

// Whether any is: before a name is put together.
inline bool has_fault_points() { return fault_detail::armed.load(std::memory_order_relaxed); }

// `name` is PROGRAM.POINT, as "worker.commit_entered". Does not return from the pass for which the
// point is armed, unless it only stops there.
inline void fault_point(std::string_view name) {
  if (fault_detail::armed.load(std::memory_order_relaxed)) [[unlikely]] {
    fault_detail::pass(name);
  }
}

}  // namespace laneway
