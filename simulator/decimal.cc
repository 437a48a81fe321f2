#include "simulator/decimal.h"

#include <algorithm>
#include <charconv>

namespace laneway::simulator {
namespace {

// Digits behind the point that count: 10^-9 of a unit of 2^30 is less than two of the smaller unit.
constexpr size_t kMostDigits = 9;

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<int64_t> scaled_decimal(std::string_view text, int64_t unit) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole_text = text.substr(0, point);
  std::string_view part_text = text.substr(std::min(point + 1, text.size()));
  if (whole_text.empty() || !all_digits(whole_text) || !all_digits(part_text)) return {};
  part_text = part_text.substr(0, kMostDigits);

  int64_t whole = 0;
  const char* end = whole_text.data() + whole_text.size();
  if (std::from_chars(whole_text.data(), end, whole).ec != std::errc()) return {};
  if (whole > INT64_MAX / unit - 1) return {};
  // The part below 1, digit by digit from the last one: it stays below `unit` all the time.
  int64_t scale = 1;
  int64_t part = 0;
  for (const char c : part_text) {
    part = part * 10 + (c - '0');
    scale *= 10;
  }
  // part / scale x unit, where part x unit may be too large for one word.
  const int64_t high = unit / scale * part;
  const int64_t low = unit % scale;
  if (low > 0 && part > INT64_MAX / low) return {};
  const int64_t result = whole * unit + high + (low * part + scale / 2) / scale;
  return negative ? -result : result;
}

}  // namespace laneway::simulator
