#include "pipeline/image.h"

#include "base/check.h"

namespace laneway::pipeline {

ImageLayout::ImageLayout(std::span<const lanes::ImageSlot> slots,
                         std::span<const uint32_t> first_use, int64_t alignment)
    : slots_(slots.begin(), slots.end()), offsets_(slots.size()), alignment_(alignment) {
  std::vector<bool> placed(slots.size(), false);
  for (const uint32_t slot : first_use) {
    LW_CHECK(slot < slots.size() && !placed[slot], "an order of first use names each slot once");
    placed[slot] = true;
    place(slot);
  }
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    if (!placed[slot]) place(slot);
  }
}

void ImageLayout::place(uint32_t slot) {
  offsets_[slot] = total_;
  by_offset_.push_back(slot);
  total_ += Bytes(static_cast<int64_t>(slots_[slot].bytes)).aligned_up(alignment_);
}

}  // namespace laneway::pipeline
