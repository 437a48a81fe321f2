#include "base/bytes.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace laneway {
namespace {

Error bad_size(std::string_view text) {
  return Error{ErrorCode::invalid_argument,
               "'" + std::string(text) +
                   "' is not a size: write a number of bytes, or a number with KiB, MiB or GiB, "
                   "such as 512MiB"};
}

// The factor of a unit's text, 0 when it is none.
int64_t unit_factor(std::string unit) {
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.empty() || unit == "b") return 1;
  if (unit == "k" || unit == "kib") return 1ll << 10;
  if (unit == "m" || unit == "mib") return 1ll << 20;
  if (unit == "g" || unit == "gib") return 1ll << 30;
  if (unit == "t" || unit == "tib") return 1ll << 40;
  return 0;
}

}  // namespace

std::string format_bytes(Bytes bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes.count());
  size_t unit = 0;
  while (std::fabs(amount) >= 1024.0 && unit + 1 < kUnits.size()) {
    amount /= 1024.0;
    ++unit;
  }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.2f", amount);
  std::string number = text.data();
  while (number.back() == '0') number.pop_back();
  if (number.back() == '.') number.pop_back();
  return number + " " + kUnits[unit];
}

Result<Bytes> parse_bytes(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [after, status] = std::from_chars(text.data(), end, number);
  if (status != std::errc() || !std::isfinite(number) || number < 0) return bad_size(text);
  const char* unit = after;
  while (unit != end && *unit == ' ') ++unit;
  const int64_t factor = unit_factor(std::string(unit, end));
  if (factor == 0) return bad_size(text);
  const double amount = number * static_cast<double>(factor);
  if (amount > static_cast<double>(1ll << 60)) return bad_size(text);
  return Bytes(static_cast<int64_t>(amount));
}

}  // namespace laneway
