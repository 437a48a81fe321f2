// Registry: from the text of a policy, `NAME[:key=value[:key=value…]]`, to the policy. The one
// place that knows all policies. Thread-safe (no state).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policies/policy.h"

namespace laneway::policies {

// A policy from outside of the tree: an executable file, which plugin/ starts and talks to.
struct PluginText {
  std::string file;     // begins with /, ./ or ../
  std::string options;  // for the file, "key=value:key=value": those that CommonRules has not
};
// Nothing: the text names none, or is wrong.
std::optional<PluginText> plugin_of(std::string_view text);

// `text` may name such a file too; whether that is there and may be started is not looked at: the
// policy is Advised (advised.h), and whoever runs the core must start its adviser (plugin_of).
// Error invalid_argument names the unknown policy, key or value, and what is known instead.
Result<std::unique_ptr<Policy>> make_policy(std::string_view text);

// Names that make_policy knows, in the order of the table.
std::vector<std::string> policy_names();

}  // namespace laneway::policies
