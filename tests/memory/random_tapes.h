// Tapes for property tests: shapeless random ones, and ones shaped like training steps.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "memory/tape.h"

namespace laneway::testing {

struct RandomTapeOptions {
  uint32_t allocations = 100;
  uint64_t largest = 1 << 16;
  double free_chance = 0.5;
  bool free_all = true;  // else some stay alive at the end
};

// Sizes over all orders of magnitude up to `largest`, frees of random live allocations in between.
memory::AllocationTape random_tape(Random& random, const RandomTapeOptions& options);

// Forward: each layer keeps activations and frees workspaces; backward frees them last in, first
// out while gradients appear; the optimizer makes and frees temporaries and frees the gradients.
memory::AllocationTape training_tape(Random& random, uint32_t layers);

}  // namespace laneway::testing
