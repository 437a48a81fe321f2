// How a program that lanewayd starts finds its way back: the descriptor at which its channel to
// the supervisor lies, and the check that the program was started that way and not by hand. And how
// it says with its exit code why it left.
#pragma once

#include <string>

#include "base/result.h"
#include "service/transport/channel.h"

namespace laneway::service {

inline constexpr int kSupervisorDescriptor = 3;

// With which a worker leaves when its device failed for good, and only it: the next one has another
// context of the device.
inline constexpr int kExitDeviceLost = 6;

// With which an activated worker leaves when what it prepared as a standby does not end.
inline constexpr int kExitPreparingHangs = 7;

// The channel to the supervisor; taken once, closed on exec from then on. Error refused, saying
// what to start instead, when `program` was not started by lanewayd.
Result<Channel> take_supervisor_channel(const std::string& program);

}  // namespace laneway::service
