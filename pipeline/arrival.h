// How much of an image must have arrived before each node of a graph runs. Images arrive from their
// beginning on, in the order in which the job's first graph uses them (pipeline/image.h), so an
// iteration can run behind the copy (PipeSwitch, Bai et al., OSDI 2020, section 4.1; without its
// groups: one figure is compared, and no message is sent). Pure function.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "lanes/graph/graph.h"
#include "pipeline/image.h"

namespace laneway::pipeline {

// By node, and behind the last one for the outputs: bytes from the image's beginning on. They never
// shrink from node to node, because a node may be run together with a later one. Requires: the
// graph's slots are those of the layout.
std::vector<Bytes> arrival_needs(const lanes::Graph& graph, const ImageLayout& layout);

}  // namespace laneway::pipeline
