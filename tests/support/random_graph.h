// Random valid graphs for property tests: inputs, slots, chains of nodes with views, in-place
// writes, result lists, scalar arithmetic and outputs. Every one passes check_graph and fits
// random_image().
#pragma once

#include <vector>

#include "base/random.h"
#include "lanes/graph/graph.h"

namespace laneway::testing {

lanes::Graph random_graph(Random& random);
std::vector<lanes::ImageSlot> random_image();

}  // namespace laneway::testing
