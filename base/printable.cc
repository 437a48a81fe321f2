#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/utf8.h"

namespace laneway {
namespace {

constexpr std::string_view kCut = "..";  // stands for what is left out

struct Range {
  uint32_t first;
  uint32_t last;
};

// Of Unicode's categories Cc, Cf, Zl and Zp: what has no form, and yet does something.
constexpr std::array kObeyed = {
    Range{0x00, 0x1f},       Range{0x7f, 0x9f},       Range{0xad, 0xad},
    Range{0x600, 0x605},     Range{0x61c, 0x61c},     Range{0x6dd, 0x6dd},
    Range{0x70f, 0x70f},     Range{0x890, 0x891},     Range{0x8e2, 0x8e2},
    Range{0x180e, 0x180e},   Range{0x200b, 0x200f},   Range{0x2028, 0x202e},
    Range{0x2060, 0x206f},   Range{0xfeff, 0xfeff},   Range{0xfff9, 0xfffb},
    Range{0x110bd, 0x110bd}, Range{0x110cd, 0x110cd}, Range{0x13430, 0x1343f},
    Range{0x1bca0, 0x1bca3}, Range{0x1d173, 0x1d17a}, Range{0xe0001, 0xe007f}};

// Two columns, or none that is counted here: from Hangul on, scripts mix both, and a line must not
// get longer than it is said to be.
constexpr uint32_t kFirstWide = 0x1100;

bool is_obeyed(uint32_t point) {
  return std::any_of(kObeyed.begin(), kObeyed.end(), [point](const Range& range) {
    return range.first <= point && point <= range.last;
  });
}

// Of a well-formed sequence.
uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  uint32_t point = byte(0) & (0x7fu >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) point = point << 6 | (byte(i) & 0x3fu);
  return point;
}

std::string escape(uint32_t point) {
  if (point == '\n') return "\\n";
  if (point == '\r') return "\\r";
  if (point == '\t') return "\\t";
  std::array<char, 16> text{};
  const char* const form = point < 0x100 ? "\\x%02x" : point < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(text.data(), text.size(), form, point);
  return text.data();
}

// What stands in a line for one character, and its columns.
struct Piece {
  std::string text;
  size_t columns;
};

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const uint32_t point =
        length == 0 ? static_cast<uint8_t>(text[0]) : code_point(text.substr(0, length));
    if (length == 0 || is_obeyed(point)) {
      std::string form = escape(point);
      const size_t columns = form.size();
      pieces.push_back({std::move(form), columns});
    } else {
      pieces.push_back({std::string(text.substr(0, length)), point < kFirstWide ? 1u : 2u});
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return pieces;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string line;
  for (const Piece& piece : pieces_of(text)) line += piece.text;
  return line;
}

std::string printable(std::string_view text) {
  std::string line;
  size_t columns = 0;
  size_t room_for_cut = 0;  // of `line`: so much of it fits before kCut
  for (const Piece& piece : pieces_of(text)) {
    columns += piece.columns;
    if (columns > kPrintableColumns) return line.substr(0, room_for_cut) + std::string(kCut);
    line += piece.text;
    if (columns + kCut.size() <= kPrintableColumns) room_for_cut = line.size();
  }
  return line;
}

}  // namespace laneway
