// BlockLayout: where the inputs and outputs of one iteration lie in a block of a client's segment.
// Client and worker compute it from the same description, so no offset of it crosses the border.
// Pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace laneway::service {

// How a number lies in a block as an input; as an output it takes 8 bytes, a double or an int64_t.
struct BlockNumber {
  double real;
  int64_t integer;
};
static_assert(sizeof(BlockNumber) == 16);

// One input or output: a tensor's bytes (contiguous), or a number.
struct BlockItem {
  bool is_tensor = true;
  uint64_t bytes = 0;  // of a tensor
};

// Offsets from the block's beginning, each a multiple of limits::kHostAlignment. Blocks of one
// segment follow each other at multiples of `stride`, which is never 0.
struct BlockLayout {
  std::vector<uint64_t> inputs;
  std::vector<uint64_t> outputs;
  uint64_t stride = 0;
};

BlockLayout block_layout(std::span<const BlockItem> inputs, std::span<const BlockItem> outputs);

}  // namespace laneway::service
