// The version that clients and operators are told.
#pragma once

namespace laneway::service {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace laneway::service
