// The core's times and limits by name, as `--set KEY=VALUE` changes them. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "lanes/state/core_state.h"

namespace laneway::simulator {

// "patience_s=0.1" changes that field. Error invalid_argument names the key and what there is, or
// the value and its limits.
Status apply_setting(std::string_view text, lanes::SchedulerConfig& config);
// All keys, with blanks between them.
std::string setting_keys();

}  // namespace laneway::simulator
