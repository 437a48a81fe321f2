// What a service does with the bytes of a graph that a client sent, up to but without operators:
// decode, check, measure, dump. Shared by the fuzzer and by the mutation test; stops the process
// when something that must hold for every input does not.
#pragma once

#include <cstddef>
#include <span>

namespace laneway::testing {

enum class GraphVerdict { malformed, refused, valid };

GraphVerdict exercise_graph(std::span<const std::byte> bytes);

}  // namespace laneway::testing
