// Time as integer nanoseconds: Duration, and TimePoint on the clock that was injected (its zero is
// that clock's own and means nothing elsewhere). Value types.
#pragma once

#include <compare>
#include <cstdint>

namespace laneway {

class Duration {
 public:
  constexpr Duration() = default;
  constexpr explicit Duration(int64_t ns) : ns_(ns) {}

  constexpr int64_t ns() const { return ns_; }
  constexpr double seconds() const { return static_cast<double>(ns_) * 1e-9; }
  friend constexpr auto operator<=>(const Duration&, const Duration&) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return Duration(a.ns_ + b.ns_); }
  friend constexpr Duration operator-(Duration a, Duration b) { return Duration(a.ns_ - b.ns_); }
  friend constexpr Duration operator*(Duration a, int64_t n) { return Duration(a.ns_ * n); }
  constexpr Duration& operator+=(Duration b) { return *this = *this + b; }

 private:
  int64_t ns_ = 0;
};

constexpr Duration microseconds(int64_t n) { return Duration(n * 1'000); }
constexpr Duration milliseconds(int64_t n) { return Duration(n * 1'000'000); }
constexpr Duration seconds(int64_t n) { return Duration(n * 1'000'000'000); }

class TimePoint {
 public:
  constexpr TimePoint() = default;
  constexpr explicit TimePoint(int64_t ns) : ns_(ns) {}

  constexpr int64_t ns() const { return ns_; }
  // Later than every time that a clock gives: "no wake-up is needed".
  static constexpr TimePoint never() { return TimePoint(INT64_MAX); }
  friend constexpr auto operator<=>(const TimePoint&, const TimePoint&) = default;
  friend constexpr TimePoint operator+(TimePoint t, Duration d) {
    return TimePoint(t.ns_ + d.ns());
  }
  friend constexpr Duration operator-(TimePoint a, TimePoint b) { return Duration(a.ns_ - b.ns_); }

 private:
  int64_t ns_ = 0;
};

}  // namespace laneway
