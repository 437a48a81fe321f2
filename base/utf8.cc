#include "base/utf8.h"

#include <cstdint>

namespace laneway {
namespace {

// Length of the sequence that starts with `lead`, 0 when none does, and the range that its second
// byte must be in (RFC 3629, section 4).
struct Sequence {
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
};

Sequence sequence_of(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead >= 0xc2 && lead <= 0xdf) return {2, 0x80, 0xbf};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {3, 0x80, 0xbf};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {4, 0x80, 0xbf};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

// Length of the well-formed sequence at the beginning of `bytes`; 0 when none is.
size_t sequence_at(std::span<const std::byte> bytes) {
  const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const Sequence sequence = sequence_of(byte_at(0));
  if (sequence.length > bytes.size()) return 0;
  for (size_t i = 1; i < sequence.length; ++i) {
    const uint8_t low = i == 1 ? sequence.low : 0x80;
    const uint8_t high = i == 1 ? sequence.high : 0xbf;
    if (byte_at(i) < low || byte_at(i) > high) return 0;
  }
  return sequence.length;
}

}  // namespace

bool is_utf8(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t length = sequence_at(bytes);
    if (length == 0) return false;
    bytes = bytes.subspan(length);
  }
  return true;
}

size_t utf8_length(std::string_view text) { return sequence_at(std::as_bytes(std::span(text))); }

std::string to_utf8(std::string_view text) {
  std::string result(text);
  std::span<const std::byte> left = std::as_bytes(std::span(text));
  while (!left.empty()) {
    const size_t length = sequence_at(left);
    if (length == 0) result[text.size() - left.size()] = '?';
    left = left.subspan(length == 0 ? 1 : length);
  }
  return result;
}

}  // namespace laneway
