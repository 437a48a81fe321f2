// The exit codes of lanewayd, as every command of Laneway has them.
#pragma once

namespace laneway::service {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitAlreadyRunning = 5;

}  // namespace laneway::service
