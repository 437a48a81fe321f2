#include "service/transport/block_layout.h"

#include <algorithm>

#include "base/limits.h"
#include "lanes/graph/limits.h"

namespace laneway::service {
namespace {

constexpr auto kAlignment = static_cast<uint64_t>(limits::kHostAlignment);

// Sizes are bounded by limits::kMaxTensorBytes and counts by kMaxGraphOutputs: no sum overflows.
uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

BlockLayout block_layout(std::span<const BlockItem> inputs, std::span<const BlockItem> outputs) {
  BlockLayout layout;
  uint64_t next = 0;
  for (const BlockItem& item : inputs) {
    layout.inputs.push_back(next);
    next += aligned(item.is_tensor ? item.bytes : sizeof(BlockNumber));
  }
  for (const BlockItem& item : outputs) {
    layout.outputs.push_back(next);
    next += aligned(item.is_tensor ? item.bytes : sizeof(double));
  }
  layout.stride = std::max(next, kAlignment);
  return layout;
}

}  // namespace laneway::service
