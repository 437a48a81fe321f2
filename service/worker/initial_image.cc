#include "service/worker/initial_image.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/limits.h"
#include "service/transport/block_layout.h"

namespace laneway::service {
namespace {

SlotOffsets offsets_of(std::span<const lanes::ImageSlot> slots) {
  std::vector<uint64_t> bytes;
  bytes.reserve(slots.size());
  for (const lanes::ImageSlot& slot : slots) bytes.push_back(slot.bytes);
  return slot_offsets(bytes);
}

}  // namespace

InitialImage::InitialImage(std::span<const lanes::ImageSlot> slots) {
  SlotOffsets places = offsets_of(slots);
  offsets_ = std::move(places.offsets);
  own_.reset(static_cast<std::byte*>(std::calloc(std::max<uint64_t>(places.total, 1), 1)));
  if (own_ == nullptr) throw std::bad_alloc();
}

InitialImage::InitialImage(std::span<const lanes::ImageSlot> slots,
                           std::span<const void* const> initial)
    : InitialImage(slots) {
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (initial[slot] == nullptr || slots[slot].bytes == 0) continue;
    std::memcpy(own_.get() + offsets_[slot], initial[slot], slots[slot].bytes);
  }
}

Result<InitialImage> InitialImage::map(std::span<const lanes::ImageSlot> slots, int descriptor) {
  SlotOffsets places = offsets_of(slots);
  // A job without bytes still sends memory, which cannot be empty.
  const uint64_t total =
      std::max<uint64_t>(places.total, static_cast<uint64_t>(limits::kHostAlignment));
  auto memory = memory::SharedMemory::attach(descriptor, Bytes(static_cast<int64_t>(total)));
  if (!memory) return memory.error();
  InitialImage image;
  image.offsets_ = std::move(places.offsets);
  image.shared_.emplace(std::move(memory).value());
  return image;
}

void InitialImage::write_to(std::byte* image, Bytes size, const pipeline::ImageLayout& layout,
                            memory::CopyEngine& link) const {
  const auto count = static_cast<uint32_t>(layout.slot_count());
  for (uint32_t slot = 0; slot < count; ++slot) {
    const Bytes bytes(static_cast<int64_t>(layout.slot(slot).bytes));
    if (bytes.count() == 0) continue;
    std::byte* const to = image + layout.offset(slot).count();
    link.copy(memory::CopyDirection::to_device, to, data() + offsets_[slot], bytes);
    const Bytes next =
        std::min(bytes.aligned_up(limits::kHostAlignment), size - layout.offset(slot));
    std::memset(to + bytes.count(), 0, static_cast<size_t>((next - bytes).count()));
  }
  const Bytes known = std::min(layout.total().aligned_up(limits::kHostAlignment), size);
  std::memset(image + known.count(), 0, static_cast<size_t>((size - known).count()));
}

}  // namespace laneway::service
