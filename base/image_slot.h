// ImageSlot: one persistent tensor's storage in a job's image. A client lists the slots of a job,
// messages carry the list, the pipeline lays an image out from it. Plain data.
#pragma once

#include <cstdint>
#include <string>

namespace laneway {

// Numbered as in messages and in laneway.h; never renumber.
enum class SlotKind : uint8_t {
  parameter = 0,
  buffer = 1,
  optimizer_state = 2,
  gradient = 3,
  constant = 4
};

struct ImageSlot {
  std::string name;  // "model/0.weight", "optimizer/0/exp_avg": for messages and maps
  SlotKind kind = SlotKind::parameter;
  uint64_t bytes = 0;
  friend bool operator==(const ImageSlot&, const ImageSlot&) = default;
};

}  // namespace laneway
