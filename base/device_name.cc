#include "base/device_name.h"

#include <algorithm>
#include <charconv>

namespace laneway {
namespace {

constexpr size_t kMostKindLetters = 16;
constexpr size_t kMostDigits = 3;

bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Result<DeviceName> parse_device_name(std::string_view text) {
  if (text == "host") return DeviceName{.kind = "host"};
  const size_t colon = std::min(text.find(':'), text.size());
  DeviceName name{.kind = std::string(text.substr(0, colon))};
  const std::string_view number = text.substr(std::min(colon + 1, text.size()));
  const bool kind_is_right = !name.kind.empty() && name.kind.size() <= kMostKindLetters &&
                             is_small_letter(name.kind[0]) &&
                             std::all_of(name.kind.begin(), name.kind.end(),
                                         [](char c) { return is_small_letter(c) || is_digit(c); });
  if (!kind_is_right || name.is_host() || number.empty() || number.size() > kMostDigits ||
      !std::all_of(number.begin(), number.end(), is_digit)) {
    return Error{ErrorCode::invalid_argument,
                 "use 'host', 'cuda:N', or 'KIND:N' with the KIND of another plugin "
                 "(liblaneway_KIND.so), N of at most " +
                     std::to_string(kMostDigits) + " digits"};
  }
  std::from_chars(number.data(), number.data() + number.size(), name.index);
  return name;
}

}  // namespace laneway
