#include "simulator/core_settings.h"

#include <array>
#include <cstdint>
#include <optional>

#include "simulator/decimal.h"

namespace laneway::simulator {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLongestS = 1'000'000'000;  // 31 years
constexpr int64_t kMostIterations = 1'000'000'000;

using Config = lanes::SchedulerConfig;

struct Setting {
  const char* key;
  Duration& (*time)(Config&);  // null: it is the number of iterations of a turn
};

constexpr std::array<Setting, 12> kSettings = {{
    {"budget", nullptr},
    {"slice_s", [](Config& config) -> Duration& { return config.budget.slice; }},
    {"longest_slice_s", [](Config& config) -> Duration& { return config.longest_slice; }},
    {"patience_s", [](Config& config) -> Duration& { return config.patience; }},
    {"left_alone_s", [](Config& config) -> Duration& { return config.left_alone; }},
    {"lingers_s", [](Config& config) -> Duration& { return config.lingers; }},
    {"idle_before_saving_s", [](Config& config) -> Duration& { return config.idle_before_saving; }},
    {"merge_after_s", [](Config& config) -> Duration& { return config.merge_after; }},
    {"merge_all_after_s", [](Config& config) -> Duration& { return config.merge_all_after; }},
    {"trial_after_s", [](Config& config) -> Duration& { return config.lane_limit.after; }},
    {"trial_least_s", [](Config& config) -> Duration& { return config.lane_limit.least; }},
    {"trial_again_s", [](Config& config) -> Duration& { return config.lane_limit.again; }},
}};

Error bad(std::string_view text, const std::string& wanted) {
  return Error{ErrorCode::invalid_argument, std::string(text) + ": " + wanted};
}

}  // namespace

std::string setting_keys() {
  std::string keys;
  for (const Setting& one : kSettings) keys += std::string(keys.empty() ? "" : " ") + one.key;
  return keys;
}

Status apply_setting(std::string_view text, Config& config) {
  const size_t equal = text.find('=');
  const Setting* setting = nullptr;
  for (const Setting& one : kSettings) {
    if (text.substr(0, equal) == one.key) setting = &one;
  }
  if (equal == std::string_view::npos || setting == nullptr) {
    return bad(text, "give KEY=VALUE, with a key of " + setting_keys());
  }
  const std::string_view value = text.substr(equal + 1);
  const bool is_time = setting->time != nullptr;
  const std::optional<int64_t> number = scaled_decimal(value, is_time ? kSecond : 1);
  const bool is_whole = is_time || value.find('.') == std::string_view::npos;
  const int64_t most = is_time ? kLongestS * kSecond : kMostIterations;
  if (!number || !is_whole || *number < 0 || *number > most) {
    return bad(text, is_time ? "give seconds from 0 to " + std::to_string(kLongestS)
                             : "give a whole number of iterations from 0, for no bound, to " +
                                   std::to_string(kMostIterations));
  }
  if (is_time) {
    setting->time(config) = Duration(*number);
  } else {
    config.budget.iterations = static_cast<uint64_t>(*number);
  }
  return {};
}

}  // namespace laneway::simulator
