// The environment of the programs that lanewayd starts: its own. LANEWAY_FAULT (base/fault_point.h)
// reaches only the first process of each program, else its successors would die at the same point
// for ever. They get what LANEWAY_FAULT_AGAIN says: texts separated by semicolons, the first for
// the second process and so on, the last for all that follow.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace laneway::service {

// "NAME=value" each. `started`: processes of the program before this one.
std::vector<std::string> child_environment(size_t started);

}  // namespace laneway::service
