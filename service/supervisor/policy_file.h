// The file of a policy from outside the tree, as a service wants it: it runs as the service's user,
// so nobody else may change it or put another one in its place. Thread-safe (no state).
#pragma once

#include <string>

#include "base/result.h"

namespace laneway::service {

// The file, links followed, if this process may start it now; that one is to be started, because a
// link in a folder of somebody else's may be another one a moment later. Error invalid_argument as
// check_program says it (plugin/plugin_process.h); or somebody else than its owner may write the
// folder that the file lies in. Folders above that one are not looked at.
Result<std::string> checked_policy_file(const std::string& file);

// The same text with the absolute path of its file, if it names one. Errors as
// checked_policy_file.
Result<std::string> startable_policy(const std::string& text);

}  // namespace laneway::service
