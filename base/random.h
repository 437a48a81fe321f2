// Random: the only random generator for simulations, searches and tests: small, seeded, the same
// sequence on every platform (splitmix64; Steele, Lea and Flood, "Fast splittable pseudorandom
// number generators", 2014). Must not be used for secrets. Not thread-safe; each owner has its own.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace laneway {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound); the bias is below bound / 2^64. Requires: bound > 0.
  uint64_t below(uint64_t bound) {
    LW_CHECK(bound > 0);
    return next() % bound;
  }

  // Uniform in [low, high]. Requires: low <= high.
  int64_t between(int64_t low, int64_t high) {
    LW_CHECK(low <= high);
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1));
  }

  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return unit() < probability; }

 private:
  uint64_t state_;
};

}  // namespace laneway
