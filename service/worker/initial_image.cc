#include "service/worker/initial_image.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/limits.h"
#include "service/transport/block_layout.h"

namespace laneway::service {
namespace {

// What is copied at least of an image that nobody wants any more.
constexpr Bytes kPiece = mib(4);

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

Status InitialImage::write_to(memory::PoolAccess& pool, std::byte* image, Bytes size,
                              const pipeline::ImageLayout& layout,
                              const std::function<bool(Bytes)>& goes_on) const {
  const auto copy = [&](std::byte* to, const std::byte* from, Bytes bytes) -> Status {
    for (Bytes at; at < bytes; at += kPiece) {
      if (!goes_on(Bytes(to - image) + at))
        return Error{ErrorCode::cancelled, "the image is not wanted any more"};
      const Bytes piece = std::min(kPiece, bytes - at);
      if (Status done = pool.write(to + at.count(), from + at.count(), piece); !done) return done;
    }
    return {};
  };
  const auto zeros = [&](Bytes from, Bytes to) -> Status {
    return to > from ? pool.fill(image + from.count(), std::byte{0}, to - from) : Status();
  };
  const int64_t alignment = layout.alignment();
  const auto count = static_cast<uint32_t>(layout.slot_count());
  for (uint32_t slot = 0; slot < count; ++slot) {
    const Bytes bytes(static_cast<int64_t>(layout.slot(slot).bytes));
    if (bytes.count() == 0) continue;
    const Bytes at = layout.offset(slot);
    Status written = copy(image + at.count(), data() + offsets_[slot], bytes);
    if (written) written = zeros(at + bytes, std::min(at + bytes.aligned_up(alignment), size));
    if (!written) return written;
  }
  return zeros(std::min(layout.total().aligned_up(alignment), size), size);
}

Status SlotPlaces::read(uint32_t slot, void* to, uint64_t bytes) const {
  if (bytes == 0) return {};
  const std::byte* const from = this->slot(slot);
  if (pool_ != nullptr) return pool_->read(to, from, Bytes(static_cast<int64_t>(bytes)));
  std::memcpy(to, from, bytes);
  return {};
}

Status SlotPlaces::write(uint32_t slot, const void* from, uint64_t bytes) const {
  if (bytes == 0) return {};
  std::byte* const to = this->slot(slot);
  if (pool_ != nullptr) return pool_->write(to, from, Bytes(static_cast<int64_t>(bytes)));
  std::memcpy(to, from, bytes);
  return {};
}

}  // namespace laneway::service
