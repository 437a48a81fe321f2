// The environment of the programs that lanewayd starts: its own. LANEWAY_FAULT (base/fault_point.h)
// reaches only the first process of each program, else its successors would die at the same point
// for ever; they get what LANEWAY_FAULT_AGAIN says.
#pragma once

#include <string>
#include <vector>

namespace laneway::service {

// "NAME=value" each.
std::vector<std::string> child_environment(bool first);

}  // namespace laneway::service
