#include "pipeline/outside_images.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace laneway::pipeline {

void OutsideImages::add(lanes::Tier tier, std::unique_ptr<OutsideStore> store) {
  LW_CHECK(tier != lanes::Tier::none && this->store(tier) == nullptr, "a tier has one store");
  stores_.at(static_cast<size_t>(tier)) = std::move(store);
}

OutsideStore* OutsideImages::store(lanes::Tier tier) const {
  const auto at = static_cast<size_t>(tier);
  return at < stores_.size() ? stores_[at].get() : nullptr;
}

bool OutsideImages::exist() const {
  return std::any_of(stores_.begin(), stores_.end(),
                     [](const auto& store) { return store != nullptr; });
}

std::byte* OutsideImages::in_memory(const lanes::OutsidePlace& place) const {
  const OutsideStore* const in = store(place.tier);
  std::byte* const memory = in != nullptr ? in->in_memory() : nullptr;
  return memory != nullptr ? memory + place.offset.count() : nullptr;
}

bool OutsideImages::may_stall(lanes::Tier tier) const {
  const OutsideStore* const in = store(tier);
  return in != nullptr && in->may_stall();
}

Status OutsideImages::check(const lanes::OutsidePlace& place, Bytes size) const {
  const OutsideStore* const in = store(place.tier);
  const bool inside = in != nullptr && size >= Bytes() && size <= in->size() &&
                      place.offset >= Bytes() && place.offset <= in->size() - size;
  if (inside) return {};
  return Error{ErrorCode::internal, "an image's place outside of the pool, " + format_bytes(size) +
                                        " at " + std::to_string(place.offset.count()) + " of the " +
                                        lanes::tier_name(place.tier) + ", does not exist"};
}

Result<uint64_t> OutsideImages::save(memory::PoolAccess& pool, const std::byte* image, Bytes size,
                                     const lanes::OutsidePlace& to, const GoesOn& goes_on) {
  if (Status fits = check(to, size); !fits) return fits.error();
  return store(to.tier)->save(pool, image, size, to.offset, goes_on);
}

Status OutsideImages::move_prefix(memory::PoolAccess& pool, std::byte* image, const Prefix& prefix,
                                  const GoesOn& goes_on, const Started& started) {
  const Bytes piece = pool.piece();
  for (Bytes at; prefix.data != image && at < prefix.size; at += piece) {
    if (!goes_on(at)) return not_wanted();
    const Bytes bytes = std::min(piece, prefix.size - at);
    if (Status moved = pool.copy_within(image + at.count(), prefix.data + at.count(), bytes);
        !moved) {
      return moved;
    }
    started(at + bytes, nullptr);
  }
  if (prefix.data == image && prefix.size > Bytes()) started(prefix.size, nullptr);
  return {};
}

Status OutsideImages::load(memory::PoolAccess& pool, std::byte* image, Bytes size,
                           const lanes::OutsidePlace& from, uint64_t checksum,
                           const GoesOn& goes_on, const Prefix& prefix, const Started& started) {
  if (Status fits = check(from, size); !fits) return fits;
  const Started& tell = started ? started : [](Bytes, const std::shared_ptr<memory::Event>&) {};
  if (Status there = move_prefix(pool, image, prefix, goes_on, tell); !there) return there;
  return store(from.tier)->load(pool, image, {from.offset, size, checksum}, prefix.size, goes_on,
                                tell);
}

}  // namespace laneway::pipeline
