// GraphInfo: what a client must know of a graph that the service has taken: which inputs one
// iteration reads and which outputs it gives, with their sizes. Client and worker compute the
// layout of an iteration's block from it (service/wire/layout.h), each for itself. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value_kind.h"

namespace laneway::wire {

using laneway::ValueKind;

// Part of the version of every message that has a GraphInfo; raised when its fields change.
inline constexpr uint16_t kGraphInfoVersion = 1;

struct InputInfo {
  ValueKind kind = ValueKind::tensor;
  uint64_t bytes = 0;  // of a tensor; 0 for a number
  std::string name;
  friend bool operator==(const InputInfo&, const InputInfo&) = default;
};

struct OutputInfo {
  ValueKind kind = ValueKind::tensor;
  uint64_t bytes = 0;  // of a tensor; 8 for a number
  friend bool operator==(const OutputInfo&, const OutputInfo&) = default;
};

struct GraphInfo {
  uint32_t number = 0;  // in its job
  std::string name;
  std::vector<InputInfo> inputs;
  std::vector<OutputInfo> outputs;
  friend bool operator==(const GraphInfo&, const GraphInfo&) = default;
};

}  // namespace laneway::wire
