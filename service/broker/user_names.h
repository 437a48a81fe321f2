// Names of users, for people. Asked of the system once each. One thread.
#pragma once

#include <cstdint>
#include <string>

namespace laneway::service {

// The number as text where the system knows no name.
std::string user_name(uint32_t uid);

}  // namespace laneway::service
