#include "base/slot_offsets.h"

#include "base/limits.h"

namespace laneway {

// Sizes are bounded by limits::kMaxTensorBytes: no sum overflows.
SlotOffsets slot_offsets(std::span<const ImageSlot> slots) {
  constexpr auto kAlignment = static_cast<uint64_t>(limits::kHostAlignment);
  SlotOffsets places;
  places.offsets.reserve(slots.size());
  for (const ImageSlot& slot : slots) {
    places.offsets.push_back(places.total);
    places.total += (slot.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return places;
}

}  // namespace laneway
