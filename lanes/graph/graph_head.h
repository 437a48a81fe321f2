// What can be said of a graph's binary form before it is decoded: with how many threads its
// operators were captured, and about how much memory it takes once it is resolved. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace laneway::lanes {

struct GraphHead {
  int32_t threads = 1;
};

// Reads the first fields alone. Error invalid_graph as decode_graph has it.
Result<GraphHead> read_graph_head(std::span<const std::byte> bytes);

// An estimate of what a graph of such a binary form takes of a worker's memory when it is resolved.
Bytes resolved_bytes(Bytes binary_form);

}  // namespace laneway::lanes
