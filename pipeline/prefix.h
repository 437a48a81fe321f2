// The prefix rule: how much of an image, from its beginning on, must be in the pool when a request
// comes, so that the rest arrives in time for the nodes that need it. Pure function.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/time.h"

namespace laneway::pipeline {

// What one graph needs, and when. Of the same length: for each node, and behind the last one for
// the answer, which waits for the whole image.
struct ArrivalPlan {
  std::span<const Bytes> needs;      // pipeline/arrival.h, and the whole image
  std::span<const Duration> starts;  // what was computed before it, with the image there
};

// The smallest number of bytes with which no node of the graph waits for one that the link, which
// carries `bytes_per_s` from the iteration's beginning on, still has to bring.
Bytes prefix_for(const ArrivalPlan& plan, int64_t bytes_per_s);

}  // namespace laneway::pipeline
