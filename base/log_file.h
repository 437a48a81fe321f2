// The file of set_log_file (log.h), which something that turns logs over may move away.
#pragma once

#include "base/result.h"

namespace laneway {

// Opens it anew under its name; without one, nothing. Error when it cannot be opened: lines then go
// where they went before. Requires: the caller's thread is the one that set it.
Status reopen_log_file();

}  // namespace laneway
