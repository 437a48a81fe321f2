#include "policies/registry.h"

#include <map>
#include <optional>
#include <utility>

#include "policies/fifo.h"
#include "policies/srtf.h"

namespace laneway::policies {
namespace {

using Options = std::map<std::string, std::string>;
using Maker = Result<std::unique_ptr<Policy>> (*)(Options& options);

Error bad(const std::string& message) { return {ErrorCode::invalid_argument, message}; }

// Takes `key` out of the options: true or false, `otherwise` when it is absent.
Result<bool> take_flag(Options& options, const std::string& key, bool otherwise) {
  const auto found = options.find(key);
  if (found == options.end()) return otherwise;
  const std::string value = found->second;
  options.erase(found);
  if (value == "yes") return true;
  if (value == "no") return false;
  return bad("policy option " + key + "=" + value + " is neither yes nor no; write " + key +
             "=yes or " + key + "=no");
}

template <class PolicyType>
Result<std::unique_ptr<Policy>> make_sharing(Options& options) {
  const Result<bool> share = take_flag(options, "share", true);
  if (!share.ok()) return share.error();
  return std::unique_ptr<Policy>(std::make_unique<PolicyType>(share.value()));
}

struct Entry {
  const char* name;
  const char* keys;  // for messages
  Maker make;
};

// In alphabetical order.
constexpr Entry kEntries[] = {
    {"fifo", "share", make_sharing<Fifo>},
    {"srtf", "share", make_sharing<Srtf>},
};

std::string known_names() {
  std::string names;
  for (const Entry& entry : kEntries)
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

// Splits "key=value:key=value".
Result<Options> parse_options(const std::string& policy, std::string_view text) {
  Options options;
  while (true) {
    const size_t end = text.find(':');
    const std::string_view item = text.substr(0, end);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return bad("policy " + policy + ": option '" + std::string(item) +
                 "' is not of the form key=value");
    }
    const std::string key(item.substr(0, equals));
    if (!options.emplace(key, std::string(item.substr(equals + 1))).second) {
      return bad("policy " + policy + ": option '" + key + "' is given twice");
    }
    if (end == std::string_view::npos) return options;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Result<std::unique_ptr<Policy>> make_policy(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string name(text.substr(0, colon));
  Options options;
  if (colon != std::string_view::npos) {
    Result<Options> parsed = parse_options(name, text.substr(colon + 1));
    if (!parsed.ok()) return parsed.error();
    options = std::move(parsed).value();
  }
  for (const Entry& entry : kEntries) {
    if (name != entry.name) continue;
    Result<std::unique_ptr<Policy>> policy = entry.make(options);
    if (policy.ok() && !options.empty()) {
      return bad("policy " + name + " has no option '" + options.begin()->first +
                 "'; its options are: " + entry.keys);
    }
    return policy;
  }
  return bad("no policy is called '" + name + "'; known policies are: " + known_names());
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

}  // namespace laneway::policies
