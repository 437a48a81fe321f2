// OutsidePlace: where a copy of an image lies when it is not the pool's: in the host store, or in
// the spill file. The core decides these places as it decides those in the pool; each tier has a
// capacity of its own. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace laneway::lanes {

enum class Tier : uint8_t {
  none,   // no copy outside of the pool
  store,  // the machine's memory
  spill,  // a file
};
// Those that hold copies, the one whose copies cost least first.
inline constexpr std::array kTiers{Tier::store, Tier::spill};
inline constexpr size_t kTierCount = 1 + kTiers.size();  // with none

// One value for each tier, none included.
template <typename T>
struct PerTier {
  std::array<T, kTierCount> values{};
  T& operator[](Tier tier) { return values.at(static_cast<size_t>(tier)); }
  const T& operator[](Tier tier) const { return values.at(static_cast<size_t>(tier)); }
};

const char* tier_name(Tier tier);

struct OutsidePlace {
  Tier tier = Tier::none;
  Bytes offset;  // in the tier
  friend bool operator==(const OutsidePlace&, const OutsidePlace&) = default;
};

}  // namespace laneway::lanes
