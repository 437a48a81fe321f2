// The seed of a random test: LANEWAY_SEED when it is set, else the test's own; printed first, so
// that a failure can be repeated.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace laneway::testing {

inline uint64_t seed_from_environment(uint64_t fallback) {
  const char* text = std::getenv("LANEWAY_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
  std::printf("LANEWAY_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

}  // namespace laneway::testing
