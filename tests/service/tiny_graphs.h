// Graphs whose results are known by counting: each iteration adds twice its input to the state and
// gives the new state back. Lost, doubled, reordered or half-done iterations show in the figures.
#pragma once

#include <cstdint>

#include "lanes/graph/graph.h"

namespace laneway::testing {

// state[count] += 2 * input[count]; output: the state afterwards.
lanes::Graph adding_graph(int64_t count);
// The same state, read only: output = state + input.
lanes::Graph reading_graph(int64_t count);
// No state at all: output = 2 * input.
lanes::Graph doubling_graph(int64_t count);
// One slot of `count` floats.
std::vector<lanes::ImageSlot> adding_slots(int64_t count);

}  // namespace laneway::testing
