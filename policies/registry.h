// Registry: from the text of a policy, `NAME[:key=value[:key=value…]]`, to the policy. The one
// place that knows all policies. Thread-safe (no state).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policies/policy.h"

namespace laneway::policies {

// Error invalid_argument names the unknown policy, key or value, and what is known instead.
Result<std::unique_ptr<Policy>> make_policy(std::string_view text);

// Names that make_policy knows, in the order of the table.
std::vector<std::string> policy_names();

}  // namespace laneway::policies
