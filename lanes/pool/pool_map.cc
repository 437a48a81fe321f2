#include "lanes/pool/pool_map.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lanes/pool/pool_gaps.h"

namespace laneway::lanes {
namespace {

using memory::Claim;
using memory::ClaimClass;
using memory::LedgerOutcome;
using memory::OwnerKind;
using memory::Placement;

Bytes rounded_down(Bytes bytes, int64_t alignment) {
  return Bytes(bytes.count() & ~(alignment - 1));
}

Claim claim_of(memory::ClaimOwner owner, ClaimClass claim_class, Bytes bytes) {
  Claim claim;
  claim.owner = owner;
  claim.claim_class = claim_class;
  claim.held = bytes;
  return claim;
}

Claim region_claim(RegionId region, Bytes bytes) {
  Claim wanted = claim_of({OwnerKind::region, region.value()}, ClaimClass::region, bytes);
  wanted.revocation = memory::Revocation::boundary;
  return wanted;
}

}  // namespace

PoolMap::PoolMap(Bytes capacity, Bytes reserve, int64_t alignment)
    : alignment_(alignment),
      reserve_(reserve),
      record_(rounded_down(capacity, alignment), alignment) {
  LW_CHECK(reserve < ledger().capacity(), "the reserve is not smaller than the pool");
  if (reserve > Bytes(0)) {
    const auto made = record_.enter(claim_of({}, ClaimClass::overhead, reserve));
    LW_CHECK(made.outcome == LedgerOutcome::done, "the reserve can't be claimed");
  }
}

Bytes PoolMap::rounded(Bytes bytes) const {
  // Amounts come from outside: the largest stay as large, and don't overflow.
  return std::clamp(bytes, Bytes(1), Bytes(INT64_MAX) - Bytes(alignment_)).aligned_up(alignment_);
}

bool PoolMap::could_ever_fit(Bytes persistent, Bytes region) const {
  // Sizes come from clients: compared one by one, so that no sum overflows.
  const Bytes usable = ledger().capacity() - reserve_;
  if (persistent > usable || region > usable) return false;
  return rounded(persistent) + rounded(region) <= usable;
}

Room PoolMap::place_image(JobId job, Bytes size, Bytes* offset) {
  const Bytes bytes = rounded(size);
  const auto made =
      record_.enter(claim_of({OwnerKind::job, job.value()}, ClaimClass::persistent, bytes));
  if (made.outcome != LedgerOutcome::done) return Room::full;
  const std::optional<Bytes> place = record_.take(bytes, Placement::lowest);
  if (!place) {
    record_.leave(made.id);
    return Room::fragmented;
  }
  LW_CHECK(record_.image(job) == nullptr, "the job has an image already");
  record_.set_image(job, Image{{*place, made.id}, bytes, {}});
  *offset = *place;
  return Room::done;
}

Room PoolMap::could_place_image(Bytes size) const {
  const Bytes bytes = rounded(size);
  if (bytes > capacity() - claimed()) return Room::full;
  return bytes <= largest_free() ? Room::done : Room::fragmented;
}

bool PoolMap::is_range(Bytes offset, Bytes size) const {
  const Bytes end = ranges().capacity();
  if (size <= Bytes(0) || size > end || offset < Bytes(0) || offset > end - size) return false;
  return offset.count() % alignment_ == 0 && size.count() % alignment_ == 0;
}

bool PoolMap::claim_image(JobId job, Bytes size, Bytes offset, Bytes range) {
  if (size < Bytes(0) || size > range || !is_range(offset, range)) return false;
  if (rounded(size) != range || record_.image(job) != nullptr) return false;
  const auto made =
      record_.enter(claim_of({OwnerKind::job, job.value()}, ClaimClass::persistent, range));
  if (made.outcome != LedgerOutcome::done) return false;
  if (!record_.take_at(offset, range)) {
    record_.leave(made.id);
    return false;
  }
  record_.set_image(job, Image{{offset, made.id}, range, {}});
  return true;
}

const PoolMap::Image& PoolMap::image_of(JobId job) const {
  const Image* const image = record_.image(job);
  LW_CHECK(image != nullptr, "the job has no image");
  return *image;
}

void PoolMap::drop_image(JobId job) {
  const Image image = image_of(job);
  release(image.at);
  if (image.next) release(*image.next);
  record_.set_image(job, std::nullopt);
}

void PoolMap::release(const Place& place) {
  record_.give(place.offset);
  record_.leave(place.claim);
}

std::optional<Bytes> PoolMap::begin_move(JobId job, MoveTo to) {
  Image image = image_of(job);
  LW_CHECK(!image.next, "the image moves already");
  std::optional<Bytes> place;
  switch (to) {
    case MoveTo::lowest: place = gap_below(ranges(), image.size, ranges().capacity()); break;
    case MoveTo::highest: place = highest_gap(ranges(), image.size); break;
    case MoveTo::lower: place = gap_below(ranges(), image.size, image.at.offset); break;
  }
  if (!place) return std::nullopt;
  const auto made =
      record_.enter(claim_of({OwnerKind::job, job.value()}, ClaimClass::persistent, image.size));
  if (made.outcome != LedgerOutcome::done) return std::nullopt;
  LW_CHECK(record_.take_at(*place, image.size), "the gap was free");
  image.next = Place{*place, made.id};
  record_.set_image(job, image);
  return place;
}

void PoolMap::end_move(JobId job, bool moved) {
  Image image = image_of(job);
  LW_CHECK(image.next.has_value(), "the image does not move");
  if (moved) std::swap(image.at, *image.next);
  release(*image.next);
  image.next.reset();
  record_.set_image(job, image);
}

void PoolMap::keep_prefix(JobId job, Bytes size) {
  const Bytes offset = image_of(job).at.offset;
  LW_CHECK(size > Bytes(0) && size <= ranges().size_of(offset), "a prefix is a part of its image");
  drop_image(job);
  LW_CHECK(claim_prefix(job, {offset, size}), "the image's own range was free");
}

bool PoolMap::grow_prefix(JobId job, Bytes size) {
  const ImagePrefix prefix = prefix_of(job);
  if (!prefix.exists()) return false;
  PoolAttempt attempt(*this);
  drop_prefix(job);
  if (!claim_image(job, size, prefix.offset, rounded(size))) return false;
  attempt.keep();
  return true;
}

bool PoolMap::claim_prefix(JobId job, const ImagePrefix& prefix) {
  if (!is_range(prefix.offset, prefix.size) || record_.prefix(job) != nullptr) return false;
  Claim wanted = claim_of({OwnerKind::job, job.value()}, ClaimClass::persistent, prefix.size);
  wanted.revocation = memory::Revocation::on_demand;
  const auto made = record_.enter(wanted);
  if (made.outcome != LedgerOutcome::done) return false;
  if (!record_.take_at(prefix.offset, prefix.size)) {
    record_.leave(made.id);
    return false;
  }
  record_.set_prefix(job, Place{prefix.offset, made.id});
  return true;
}

bool PoolMap::drop_prefix(JobId job) {
  const Place* const prefix = record_.prefix(job);
  if (prefix == nullptr) return false;
  release(*prefix);
  record_.set_prefix(job, std::nullopt);
  return true;
}

ImagePrefix PoolMap::prefix_of(JobId job) const {
  const Place* const prefix = record_.prefix(job);
  if (prefix == nullptr) return {};
  return {prefix->offset, ranges().size_of(prefix->offset)};
}

Room PoolMap::open_region(Region& region, Bytes size) {
  const Bytes bytes = rounded(size);
  const auto made = record_.enter(region_claim(region.id, bytes));
  if (made.outcome != LedgerOutcome::done) return Room::full;
  const std::optional<Bytes> place = record_.take(bytes, Placement::highest);
  if (!place) {
    record_.leave(made.id);
    return Room::fragmented;
  }
  region.offset = *place;
  region.size = bytes;
  region.claim = made.id;
  return Room::done;
}

bool PoolMap::claim_region(Region& region) {
  if (!is_range(region.offset, region.size)) return false;
  const auto made = record_.enter(region_claim(region.id, region.size));
  if (made.outcome != LedgerOutcome::done) return false;
  if (!record_.take_at(region.offset, region.size)) {
    record_.leave(made.id);
    return false;
  }
  region.claim = made.id;
  return true;
}

void PoolMap::close_region(Region& region) {
  record_.give(region.offset);
  record_.leave(region.claim);
  region = Region{};
}

std::optional<Bytes> PoolMap::refit(Bytes offset, Bytes size) {
  if (const auto place = record_.stretch(offset, size, Placement::highest)) return place;
  if (const auto place = record_.stretch(offset, size, Placement::lowest)) return place;
  record_.give(offset);
  return record_.take(size, Placement::highest);
}

Room PoolMap::resize_region(Region& region, Bytes size) {
  const Bytes bytes = rounded(size);
  if (bytes == region.size) return Room::done;
  PoolAttempt attempt(*this);
  if (record_.hold(region.claim, bytes) != LedgerOutcome::done) return Room::full;
  const std::optional<Bytes> place = refit(region.offset, bytes);
  if (!place) return Room::fragmented;
  attempt.keep();
  region.offset = *place;
  region.size = bytes;
  return Room::done;
}

Room PoolMap::could_resize(const Region& region, Bytes size) {
  const PoolAttempt attempt(*this);
  Region tried = region;
  return resize_region(tried, size);
}

bool PoolMap::slide_up(std::vector<Region*> regions, Region* lowest, Bytes least) {
  Bytes from = lowest == nullptr ? ranges().capacity() : Bytes();
  for (const Region* region : regions) from = std::min(from, region->offset);
  std::vector<std::pair<Region*, Bytes>> before;
  before.reserve(regions.size() + 1);
  for (Region* region : regions) before.emplace_back(region, region->offset);
  if (lowest != nullptr) before.emplace_back(lowest, lowest->offset);
  Sliding sliding(ranges(), from);
  bool any = lowest != nullptr && sliding.go_down(*lowest);
  const auto higher = [](const Region* a, const Region* b) { return a->offset > b->offset; };
  for (bool moved = true; moved; any = any || moved) {
    moved = false;
    if (!std::is_sorted(regions.begin(), regions.end(), higher)) {
      std::sort(regions.begin(), regions.end(), higher);
    }
    for (Region* region : regions) moved = sliding.go_up(*region) || moved;
  }
  // What lies below all that slid is as before.
  if (least > largest_free() && !sliding.has_free(least)) {
    for (const auto& [region, offset] : before) region->offset = offset;
    return false;
  }
  if (!any) return true;
  record_.take_from(from, sliding.taken());
  return true;
}

bool PoolMap::could_move_below(const Region& region, Bytes limit) const {
  return gap_below(ranges(), region.size, limit).has_value();
}

bool PoolMap::move_below(Region& region, Bytes limit) {
  const std::optional<Bytes> place = gap_below(ranges(), region.size, limit);
  if (!place) return false;
  record_.give(region.offset);
  LW_CHECK(record_.take_at(*place, region.size), "the gap was free");
  region.offset = *place;
  return true;
}

bool PoolMap::set_capacity(Bytes capacity) {
  return record_.set_capacity(rounded_down(capacity, alignment_));
}

}  // namespace laneway::lanes
