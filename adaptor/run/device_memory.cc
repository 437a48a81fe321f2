#include "adaptor/run/device_memory.h"

#include <algorithm>
#include <vector>

#include "adaptor/operators/element_count.h"

namespace laneway::adaptor {
namespace {

bool is_contiguous(const lanes::Value& tensor) {
  int64_t expected = 1;
  for (size_t d = tensor.sizes.size(); d-- > 0;) {
    if (tensor.sizes[d] == 1) continue;
    if (tensor.strides[d] != expected) return false;
    expected *= tensor.sizes[d];
  }
  return true;
}

uint64_t bytes_of(const lanes::Value& tensor) {
  return static_cast<uint64_t>(lanes::dtype_bytes(tensor.dtype)) *
         static_cast<uint64_t>(element_count(tensor.sizes));
}

}  // namespace

lanes::GraphMemory with_transfers(lanes::GraphMemory memory, const lanes::Graph& graph,
                                  const Placement& placement, int64_t alignment) {
  if (placement.is_in_place()) return memory;
  const auto aligned = [&](uint64_t bytes) {
    return Bytes(static_cast<int64_t>(bytes)).aligned_up(alignment);
  };
  memory::AllocationTape& tape = memory.tape;
  std::vector<memory::TapeAllocation> inputs;
  Bytes held;
  for (const lanes::ValueIndex input : graph.inputs) {
    const lanes::Value& value = graph.values[input];
    if (value.kind != lanes::ValueKind::tensor || placement.value_on_host(graph, input)) continue;
    const uint64_t bytes = graph.storages[value.storage].bytes;
    if (bytes == 0) continue;
    inputs.push_back({bytes, 0});
    held += aligned(bytes);
  }
  const auto shift = static_cast<uint32_t>(inputs.size());
  for (uint32_t& freed : tape.frees) freed += shift;
  tape.allocations.insert(tape.allocations.begin(), inputs.begin(), inputs.end());
  for (size_t node = 1; node < memory.marks.size(); ++node) memory.marks[node].allocations += shift;
  Bytes copies;
  for (const lanes::ValueIndex output : graph.outputs) {
    const lanes::Value& value = graph.values[output];
    if (value.kind != lanes::ValueKind::tensor || placement.value_on_host(graph, output)) continue;
    if (is_contiguous(value)) continue;
    tape.allocations.push_back({bytes_of(value), memory.marks.back().frees});
    copies += aligned(bytes_of(value));
  }
  std::vector<bool> freed(tape.allocations.size(), false);
  for (const uint32_t index : tape.frees) freed[index] = true;
  for (uint32_t index = 0; index < freed.size(); ++index) {
    if (!freed[index]) tape.frees.push_back(index);
  }
  for (Bytes& live : memory.live) live += held;
  for (Bytes& reach : memory.reach) reach += held;
  if (!memory.reach.empty()) memory.reach.back() += copies;
  for (size_t node = memory.reach.size(); node-- > 1;) {
    memory.reach[node - 1] = std::max(memory.reach[node - 1], memory.reach[node]);
  }
  memory.peak = memory.reach.empty() ? held : memory.reach.front();
  return memory;
}

}  // namespace laneway::adaptor
