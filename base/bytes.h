// Bytes: an amount of memory as a strong type (signed, so that a difference can be negative),
// with the alignment arithmetic that plans need, and the text form of sizes used on command
// lines and in messages (binary KiB, MiB, GiB). Value type.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace laneway {

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(int64_t count) : count_(count) {}

  constexpr int64_t count() const { return count_; }
  // The amount rounded up to a multiple of `alignment`. Requires: `alignment` is a power of two.
  constexpr Bytes aligned_up(int64_t alignment) const {
    return Bytes((count_ + alignment - 1) & ~(alignment - 1));
  }

  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count_ + b.count_); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  friend constexpr Bytes operator*(Bytes a, int64_t n) { return Bytes(a.count_ * n); }
  constexpr Bytes& operator+=(Bytes b) { return *this = *this + b; }
  constexpr Bytes& operator-=(Bytes b) { return *this = *this - b; }

 private:
  int64_t count_ = 0;
};

constexpr Bytes kib(int64_t n) { return Bytes(n << 10); }
constexpr Bytes mib(int64_t n) { return Bytes(n << 20); }
constexpr Bytes gib(int64_t n) { return Bytes(n << 30); }

// "512 MiB", "1.5 GiB", "640 B": at most two decimals, the largest unit that keeps the number >= 1.
std::string format_bytes(Bytes bytes);

// Reads "4096", "64KiB", "1.5 GiB" (case-insensitive, optional blank, "B", "K", "M", "G" accepted
// as short forms). Error invalid_argument names the text and the accepted forms.
Result<Bytes> parse_bytes(std::string_view text);

}  // namespace laneway
