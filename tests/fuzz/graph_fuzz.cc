// libFuzzer target over the bytes of graphs: decoding, checking, sizes, dump. Built by clang with
// -DLANEWAY_FUZZ=ON; README.md says how to run it. Starts from the seeds that graph_seeds writes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/graph_exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  laneway::testing::exercise_graph(std::as_bytes(std::span(data, size)));
  return 0;
}
