// SlotOffsets: where the first bytes of a job's slots lie in the memory that a client shares.
// Client and worker compute it from the same list, so no offset of it crosses the border. Pure
// function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/image_slot.h"

namespace laneway {

// Slots one behind the other in the order of their numbers, each at a multiple of
// limits::kHostAlignment.
struct SlotOffsets {
  std::vector<uint64_t> offsets;
  uint64_t total = 0;
};
SlotOffsets slot_offsets(std::span<const ImageSlot> slots);

}  // namespace laneway
