#include "policies/policy_options.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace laneway::policies {
namespace {

Error bad(const std::string& message) { return {ErrorCode::invalid_argument, message}; }

template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

template <class Number>
std::string text_of(Number value) {
  char text[32];
  return {std::begin(text), std::to_chars(std::begin(text), std::end(text), value).ptr};
}

template <class Number>
std::string from_to(Number least, Number most) {
  return " from " + text_of(least) + " to " + text_of(most);
}

}  // namespace

Result<PolicyOptions> PolicyOptions::parse(std::string policy, std::string_view text) {
  PolicyOptions options;
  options.policy_ = std::move(policy);
  while (true) {
    const size_t end = text.find(':');
    const std::string_view item = text.substr(0, end);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return bad("policy " + options.policy_ + ": option '" + std::string(item) +
                 "' is not of the form key=value");
    }
    const std::string key(item.substr(0, equals));
    if (!options.given_.emplace(key, std::string(item.substr(equals + 1))).second) {
      return bad("policy " + options.policy_ + ": option '" + key + "' is given twice");
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  options.left_ = options.given_;
  return options;
}

const std::string* PolicyOptions::take(const std::string& key) {
  known_ += (known_.empty() ? "" : ", ") + key;
  left_.erase(key);
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

void PolicyOptions::wrong(const std::string& key, const std::string& value,
                          const std::string& remedy) {
  if (!error_.empty()) return;
  error_ = "policy " + policy_ + ": option " + key + "=" + value + ": write " + remedy;
}

size_t PolicyOptions::choice(const std::string& key, std::initializer_list<const char*> allowed) {
  const std::string* value = take(key);
  if (value == nullptr) return 0;
  std::string remedy;
  size_t place = 0;
  for (const char* one : allowed) {
    if (*value == one) return place;
    remedy += (place++ > 0 ? " or " : "") + key + "=" + one;
  }
  wrong(key, *value, remedy);
  return 0;
}

bool PolicyOptions::flag(const std::string& key, bool otherwise) {
  if (otherwise) return choice(key, {"yes", "no"}) == 0;
  return choice(key, {"no", "yes"}) == 1;
}

double PolicyOptions::number(const std::string& key, double otherwise, double least, double most) {
  const std::string* value = take(key);
  if (value == nullptr) return otherwise;
  const auto number = parsed<double>(*value);
  // A NaN is neither.
  if (number && *number >= least && *number <= most) return *number;
  wrong(key, *value, "a number" + from_to(least, most));
  return otherwise;
}

Duration PolicyOptions::time(const std::string& key, Duration otherwise, Duration most) {
  constexpr double kLeast = 1e-6;
  const double value = number(key, otherwise.seconds(), kLeast, most.seconds());
  return Duration(std::llround(value * 1e9));
}

uint64_t PolicyOptions::count(const std::string& key, uint64_t otherwise, uint64_t least,
                              uint64_t most) {
  const std::string* value = take(key);
  if (value == nullptr) return otherwise;
  const auto number = parsed<uint64_t>(*value);
  if (number && *number >= least && *number <= most) return *number;
  wrong(key, *value, "a whole number" + from_to(least, most));
  return otherwise;
}

std::string PolicyOptions::take_rest() {
  std::string rest;
  for (const auto& [key, value] : left_) rest += (rest.empty() ? "" : ":") + key + "=" + value;
  left_.clear();
  return rest;
}

Status PolicyOptions::finish() const {
  if (!error_.empty()) return bad(error_);
  if (left_.empty()) return {};
  return bad("policy " + policy_ + " has no option '" + left_.begin()->first +
             "'; its options are: " + known_);
}

}  // namespace laneway::policies
