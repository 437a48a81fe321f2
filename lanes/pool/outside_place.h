// OutsidePlace: where a copy of an image lies when it is not the pool's: in the host store, or in
// the spill file. The core decides these places as it decides those in the pool; each tier has a
// capacity of its own. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace laneway::lanes {

enum class Tier : uint8_t {
  none,   // no copy outside of the pool
  store,  // the machine's memory
  spill,  // a file
};
inline constexpr size_t kTierCount = 3;

const char* tier_name(Tier tier);

struct OutsidePlace {
  Tier tier = Tier::none;
  Bytes offset;  // in the tier
  friend bool operator==(const OutsidePlace&, const OutsidePlace&) = default;
};

}  // namespace laneway::lanes
