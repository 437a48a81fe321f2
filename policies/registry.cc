#include "policies/registry.h"

#include <type_traits>
#include <utility>

#include "policies/advised.h"
#include "policies/common_rules.h"
#include "policies/edf.h"
#include "policies/fair.h"
#include "policies/fifo.h"
#include "policies/las.h"
#include "policies/packing.h"
#include "policies/policy_options.h"
#include "policies/priority.h"
#include "policies/sjf.h"
#include "policies/srtf.h"

namespace laneway::policies {
namespace {

// A policy has a constructor that takes its options, or is made without any.
template <class PolicyType>
std::unique_ptr<Policy> make(PolicyOptions& options) {
  if constexpr (std::is_constructible_v<PolicyType, PolicyOptions&>) {
    return std::make_unique<PolicyType>(options);
  } else {
    return std::make_unique<PolicyType>();
  }
}

struct Entry {
  const char* name;
  std::unique_ptr<Policy> (*make)(PolicyOptions& options);
};

// In alphabetical order.
constexpr Entry kEntries[] = {
    {"edf", make<Edf>}, {"fair", make<Fair>},       {"fifo", make<Fifo>},
    {"las", make<Las>}, {"packing", make<Packing>}, {"priority", make<Priority>},
    {"sjf", make<Sjf>}, {"srtf", make<Srtf>},
};

std::string known_names() {
  std::string names;
  for (const Entry& entry : kEntries)
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

// What a program is told of its options has to fit into one frame (plugin/frames.h), and names into
// a message of a service.
constexpr size_t kMostText = 8000;

// A file is named with a path, so that no name of the table is one.
bool is_file(std::string_view name) {
  return name.starts_with("/") || name.starts_with("./") || name.starts_with("../");
}

struct Made {
  std::unique_ptr<Policy> policy;
  std::string options;  // for a file
};

Result<Made> read(std::string_view text) {
  if (text.size() > kMostText) {
    return Error{ErrorCode::invalid_argument,
                 "the text of the policy has " + std::to_string(text.size()) +
                     " bytes, and at most " + std::to_string(kMostText) +
                     " are allowed: let the policy read a file of its own"};
  }
  const size_t colon = text.find(':');
  const std::string name(text.substr(0, colon));
  PolicyOptions options;
  if (colon != std::string_view::npos) {
    Result<PolicyOptions> parsed = PolicyOptions::parse(name, text.substr(colon + 1));
    if (!parsed.ok()) return parsed.error();
    options = std::move(parsed).value();
  }
  std::unique_ptr<Policy> rule;
  if (is_file(name)) rule = std::make_unique<Advised>(name);
  for (const Entry& entry : kEntries) {
    if (name == entry.name) rule = entry.make(options);
  }
  if (rule == nullptr) {
    return Error{ErrorCode::invalid_argument, "no policy is called '" + name +
                                                  "'; known policies are: " + known_names() +
                                                  ", and files, such as ./mine.py"};
  }
  Made made{std::make_unique<CommonRules>(options, std::move(rule)), {}};
  if (is_file(name)) made.options = options.take_rest();
  if (Status all_known = options.finish(); !all_known.ok()) return all_known.error();
  return made;
}

}  // namespace

Result<std::unique_ptr<Policy>> make_policy(std::string_view text) {
  Result<Made> made = read(text);
  if (!made) return made.error();
  return std::move(made.value().policy);
}

std::optional<PluginText> plugin_of(std::string_view text) {
  if (!is_file(text)) return std::nullopt;
  Result<Made> made = read(text);
  if (!made) return std::nullopt;
  return PluginText{.file = std::string(text.substr(0, text.find(':'))),
                    .options = std::move(made.value().options)};
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

}  // namespace laneway::policies
