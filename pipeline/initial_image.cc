#include "pipeline/initial_image.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/limits.h"
#include "base/slot_offsets.h"

namespace laneway::pipeline {
namespace {

// What is copied at least of an image that nobody wants any more.
constexpr Bytes kPiece = mib(1);

Bytes bytes_of(uint64_t count) { return Bytes(static_cast<int64_t>(count)); }

// An image in the pool that is written, from its beginning on.
struct Target {
  memory::PoolAccess& pool;
  std::byte* image;
  const GoesOn& goes_on;

  Status copy(Bytes to, const std::byte* from, Bytes bytes) const {
    for (Bytes at; at < bytes; at += kPiece) {
      if (!goes_on(to + at)) return Error{ErrorCode::cancelled, "the image is not wanted any more"};
      const Bytes piece = std::min(kPiece, bytes - at);
      if (Status done = pool.write(image + (to + at).count(), from + at.count(), piece); !done) {
        return done;
      }
    }
    return {};
  }

  Status zeros(Bytes from, Bytes to) const {
    return to > from ? pool.fill(image + from.count(), std::byte{0}, to - from) : Status();
  }

  // A slot of `bytes` bytes at `to`, whose bytes lie in files.
  Status read(Bytes to, Bytes bytes, std::span<const FileRange> ranges,
              WeightFileReader& files) const {
    Bytes done;
    for (const FileRange& range : ranges) {
      const Bytes begin = bytes_of(range.slot_offset);
      if (Status filled = zeros(to + done, to + begin); !filled) return filled;
      const Status read =
          files.read(range, [&](uint64_t at, const std::byte* data, uint64_t count) {
            return copy(to + begin + bytes_of(at), data, bytes_of(count));
          });
      if (!read) return read;
      done = begin + bytes_of(range.bytes);
    }
    return zeros(to + done, to + bytes);
  }
};

}  // namespace

InitialImage::InitialImage(std::span<const lanes::ImageSlot> slots) {
  SlotOffsets places = slot_offsets(slots);
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
  SlotOffsets places = slot_offsets(slots);
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
                              const ImageLayout& layout, const GoesOn& goes_on) {
  const Target target{pool, image, goes_on};
  const int64_t alignment = layout.alignment();
  for (const uint32_t slot : layout.by_offset()) {
    const Bytes bytes(static_cast<int64_t>(layout.slot(slot).bytes));
    if (bytes.count() == 0) continue;
    const Bytes at = layout.offset(slot);
    const std::span<const FileRange> ranges = files_.ranges_of(slot);
    Status written = ranges.empty() ? target.copy(at, data() + offsets_[slot], bytes)
                                    : target.read(at, bytes, ranges, files_);
    if (written)
      written = target.zeros(at + bytes, std::min(at + bytes.aligned_up(alignment), size));
    if (!written) return written;
  }
  const Status rest = target.zeros(std::min(layout.total().aligned_up(alignment), size), size);
  return rest && !files_.empty() ? files_.check_unchanged() : rest;
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

}  // namespace laneway::pipeline
