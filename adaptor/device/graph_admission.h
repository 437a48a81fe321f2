// Graph admission: the checks of a graph that joins a job, and the estimate of the memory of its
// first iteration. The same for every device. Pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/graph/graph_sizes.h"

namespace laneway::adaptor {

// Decodes and checks the graph, alone and against the image's slots. Error invalid_graph.
Result<lanes::Graph> decode_job_graph(std::span<const std::byte> bytes,
                                      std::span<const lanes::ImageSlot> slots);

// The memory that a lane must have for the first, unplanned iteration.
Bytes probe_height_of(const lanes::GraphMemory& memory, int64_t alignment);
// The same, but at most `most` where the prediction is at most `most`. `height`: probe_height_of.
Bytes probe_need_of(const lanes::GraphMemory& memory, Bytes height, Bytes most);

// out_of_memory, with the arithmetic, when the graph needs more than `most` beside its job's image.
Status check_room(const lanes::Graph& graph, const lanes::GraphMemory& memory, Bytes most);

// The error (invalid_argument) of a graph with other process-wide math flags than its job's first
// graph.
Error other_numeric_context(const lanes::Graph& graph);

}  // namespace laneway::adaptor
