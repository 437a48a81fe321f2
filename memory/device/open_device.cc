#include "memory/device/open_device.h"

#include <algorithm>
#include <string>

#include "memory/device/host_device.h"

namespace laneway::memory {
namespace {

bool names_cuda(std::string_view name) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  const std::string_view number = name.substr(kPrefix.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(std::string_view name) {
  if (name == "host") return std::unique_ptr<Device>(std::make_unique<HostDevice>());
  if (names_cuda(name)) {
    return Error{ErrorCode::unsupported,
                 "device '" + std::string(name) + "' is not supported by this build: use 'host'"};
  }
  return Error{ErrorCode::invalid_argument,
               "unknown device '" + std::string(name) + "': use 'host' or 'cuda:N'"};
}

}  // namespace laneway::memory
