// DeviceName: the name of a device as users give it: "host", or "KIND:INDEX" for one that a plugin
// brings (adaptor/device/device_plugin.h), as "cuda:0". Plain data and a pure function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace laneway {

struct DeviceName {
  std::string kind;  // "host", "cuda"; small letters and digits, so that it can be in a file's name
  uint32_t index = 0;
  bool is_host() const { return kind == "host"; }
};

// invalid_argument says what a name may be. Whether there is such a device only a worker can tell.
Result<DeviceName> parse_device_name(std::string_view text);

}  // namespace laneway
