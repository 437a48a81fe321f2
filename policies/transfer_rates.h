// TransferRates: how long images take on their way into the pool and out of it, as measured lately,
// by where they come from or go to. The core learns them from its events; the stay rule
// (lanes/state/stay_rule.h) and the bound on waiting outside (common_rules.h) ask. Deterministic,
// not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"

namespace laneway::policies {

enum class Way : uint8_t { first_in, from_store, from_spill, to_store, to_spill };

class TransferRates {
 public:
  // So many bytes went that way in so long.
  void learn(Way way, Bytes bytes, Duration took);
  // How long so many take; until some went, as if a gibibyte took a second.
  Duration time(Way way, Bytes bytes) const;
  // Out of the pool and back, through the host store.
  Duration there_and_back(Bytes bytes) const {
    return time(Way::to_store, bytes) + time(Way::from_store, bytes);
  }

 private:
  static constexpr size_t kWays = 5;
  // The last transfers' sums, those before them counting for less and less. What is known of no
  // transfer weighs little beside the first one.
  struct Sum {
    int64_t bytes = 1 << 21;
    int64_t ns = 1'953'125;
  };
  std::array<Sum, kWays> sums_{};
};

}  // namespace laneway::policies
