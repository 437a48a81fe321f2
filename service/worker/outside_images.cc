#include "service/worker/outside_images.h"

#include <zlib.h>

#include <algorithm>

namespace laneway::service {
namespace {

using lanes::Tier;

constexpr Bytes kPiece = mib(1);

Error not_wanted() { return {ErrorCode::cancelled, "the image is not wanted any more"}; }

// Never 0, which stands for none.
uint64_t checksum_of(uint64_t before, const std::byte* data, Bytes bytes) {
  const auto* const begin = reinterpret_cast<const Bytef*>(data);
  const uint32_t sum = static_cast<uint32_t>(
      ::crc32_z(static_cast<uint32_t>(before), begin, static_cast<size_t>(bytes.count())));
  return uint64_t{1} << 32 | sum;
}

// Of two parts, the second one `bytes` long.
uint64_t whole_of(uint64_t first, uint64_t second, Bytes bytes) {
  const uLong sum = ::crc32_combine(static_cast<uint32_t>(first), static_cast<uint32_t>(second),
                                    static_cast<z_off_t>(bytes.count()));
  return uint64_t{1} << 32 | static_cast<uint32_t>(sum);
}

}  // namespace

std::byte* OutsideImages::in_memory(const lanes::OutsidePlace& place) const {
  return place.tier == Tier::store && store_ ? store_->data() + place.offset.count() : nullptr;
}

Status OutsideImages::check(const lanes::OutsidePlace& place, Bytes size) const {
  Bytes capacity;
  if (place.tier == Tier::store && store_) capacity = store_->size();
  if (place.tier == Tier::spill && spill_) capacity = spill_->size();
  const bool inside = size >= Bytes() && size <= capacity && place.offset >= Bytes() &&
                      place.offset <= capacity - size;
  if (inside) return {};
  return Error{ErrorCode::internal, "an image's place outside of the pool, " + format_bytes(size) +
                                        " at " + std::to_string(place.offset.count()) + " of the " +
                                        lanes::tier_name(place.tier) + ", does not exist"};
}

Status OutsideImages::make_present(Bytes at, Bytes size) {
  const Bytes end = store_->size();
  present_.resize(static_cast<size_t>((end.count() + kPiece.count() - 1) / kPiece.count()));
  for (auto piece = static_cast<size_t>(at.count() / kPiece.count()); piece < present_.size();
       ++piece) {
    const Bytes begin(static_cast<int64_t>(piece) * kPiece.count());
    if (begin >= at + size) break;
    if (present_[piece]) continue;
    if (Status made = store_->make_present(begin, std::min(kPiece, end - begin)); !made) {
      return made;
    }
    present_[piece] = true;
  }
  return {};
}

Result<uint64_t> OutsideImages::save(memory::PoolAccess& pool, const std::byte* image, Bytes size,
                                     const lanes::OutsidePlace& to, const GoesOn& goes_on) {
  if (Status fits = check(to, size); !fits) return fits.error();
  std::byte* const memory = in_memory(to);
  if (memory != nullptr) {
    if (Status present = make_present(to.offset, size); !present) return present.error();
  } else {
    piece_.resize(static_cast<size_t>(kPiece.count()));
  }
  uint64_t sum = 0;
  for (Bytes at; at < size; at += kPiece) {
    if (!goes_on(at)) return not_wanted();
    const Bytes bytes = std::min(kPiece, size - at);
    std::byte* const into = memory != nullptr ? memory + at.count() : piece_.data();
    if (Status read = pool.read(into, image + at.count(), bytes); !read) return read.error();
    if (memory != nullptr) continue;
    sum = checksum_of(sum, into, bytes);
    if (Status wrote = spill_->write(to.offset + at, into, bytes); !wrote) return wrote.error();
  }
  return sum;
}

Status OutsideImages::move_prefix(memory::PoolAccess& pool, std::byte* image, const Prefix& prefix,
                                  const GoesOn& goes_on) {
  if (prefix.data == image) return {};
  for (Bytes at; at < prefix.size; at += kPiece) {
    if (!goes_on(at)) return not_wanted();
    const Bytes bytes = std::min(kPiece, prefix.size - at);
    if (Status moved = pool.copy_within(image + at.count(), prefix.data + at.count(), bytes);
        !moved) {
      return moved;
    }
  }
  return {};
}

Status OutsideImages::load(memory::PoolAccess& pool, std::byte* image, Bytes size,
                           const lanes::OutsidePlace& from, uint64_t checksum,
                           const GoesOn& goes_on, const Prefix& prefix) {
  if (Status fits = check(from, size); !fits) return fits;
  if (Status there = move_prefix(pool, image, prefix, goes_on); !there) return there;
  const std::byte* const memory = in_memory(from);
  if (memory == nullptr) piece_.resize(static_cast<size_t>(kPiece.count()));
  uint64_t sum = 0;
  for (Bytes at = prefix.size; at < size; at += kPiece) {
    if (!goes_on(at)) return not_wanted();
    const Bytes bytes = std::min(kPiece, size - at);
    const std::byte* out = memory != nullptr ? memory + at.count() : piece_.data();
    if (memory == nullptr) {
      if (Status read = spill_->read(from.offset + at, piece_.data(), bytes); !read) return read;
      sum = checksum_of(sum, out, bytes);
    }
    if (Status wrote = pool.write(image + at.count(), out, bytes); !wrote) return wrote;
  }
  if (memory == nullptr && prefix.size > Bytes()) {
    // Nodes run meanwhile: the disk is not kept waiting for what is in the pool already.
    const uint64_t begin = checksum_of(0, image, prefix.size);
    sum = whole_of(begin, sum, size - prefix.size);
  }
  if (sum == checksum) return {};
  return Error{ErrorCode::failed,
               "its image came back from the spill file with other bytes than were written: the "
               "disk or its folder cannot be relied on. Its state is lost; make the job again from "
               "your last state_dict()"};
}

}  // namespace laneway::service
