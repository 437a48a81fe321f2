#include "adaptor/device/graph_admission.h"

#include <algorithm>

#include "lanes/graph/graph_check.h"
#include "lanes/graph/graph_codec.h"
#include "memory/planner.h"

namespace laneway::adaptor {

Result<lanes::Graph> decode_job_graph(std::span<const std::byte> bytes,
                                      std::span<const lanes::ImageSlot> slots) {
  Result<lanes::Graph> decoded = lanes::decode_graph(bytes);
  if (!decoded) return decoded;
  if (Status valid = lanes::check_graph(decoded.value()); !valid) return valid.error();
  if (Status fits = lanes::check_against_image(decoded.value(), slots); !fits) return fits.error();
  return decoded;
}

// A probe meets allocations inside operators that capture cannot see (up to 2 % of the peak for
// the models measured, and some tens of KiB for tiny ones). Too little only costs a second try.
Bytes probe_height_of(const lanes::GraphMemory& memory, int64_t alignment) {
  const Bytes height = memory::simulate_best_fit(memory.tape, alignment);
  return (height + Bytes(height.count() / 8) + kib(256)).aligned_up(alignment);
}

Bytes probe_need_of(const lanes::GraphMemory& memory, Bytes height, Bytes most) {
  return memory.peak <= most ? std::min(height, most) : height;
}

Status check_room(const lanes::Graph& graph, const lanes::GraphMemory& memory, Bytes most) {
  if (memory.peak <= most) return {};
  return Error{ErrorCode::out_of_memory,
               "graph '" + graph.name + "' needs " + format_bytes(memory.peak) +
                   " while it runs; the pool has " + format_bytes(most) +
                   " beside the job's image: open the service with a larger pool"};
}

Error other_numeric_context(const lanes::Graph& graph) {
  return {
      ErrorCode::invalid_argument,
      "graph '" + graph.name +
          "' was captured under other process-wide math flags (oneDNN, deterministic "
          "algorithms, float32 precision, default dtype) than its job's first graph: put the flags "
          "back before the call, or make a job of its own for it"};
}

}  // namespace laneway::adaptor
