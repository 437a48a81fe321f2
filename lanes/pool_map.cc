#include "lanes/pool_map.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

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
      ledger_(rounded_down(capacity, alignment)),
      ranges_(rounded_down(capacity, alignment), alignment) {
  LW_CHECK(reserve < ledger_.capacity(), "the reserve is not smaller than the pool");
  if (reserve > Bytes(0)) {
    const auto made = ledger_.claim(claim_of({}, ClaimClass::overhead, reserve));
    LW_CHECK(made.outcome == LedgerOutcome::done, "the reserve can't be claimed");
  }
}

Bytes PoolMap::rounded(Bytes bytes) const {
  // Amounts come from outside: the largest stay as large, and don't overflow.
  return std::clamp(bytes, Bytes(1), Bytes(INT64_MAX) - Bytes(alignment_)).aligned_up(alignment_);
}

bool PoolMap::could_ever_fit(Bytes persistent, Bytes region) const {
  // Sizes come from clients: compared one by one, so that no sum overflows.
  const Bytes usable = ledger_.capacity() - reserve_;
  if (persistent > usable || region > usable) return false;
  return rounded(persistent) + rounded(region) <= usable;
}

Room PoolMap::place_image(JobId job, Bytes size, Bytes* offset) {
  const Bytes bytes = rounded(size);
  const auto made =
      ledger_.claim(claim_of({OwnerKind::job, job.value()}, ClaimClass::persistent, bytes));
  if (made.outcome != LedgerOutcome::done) return Room::full;
  const std::optional<Bytes> place = ranges_.allocate(bytes, Placement::lowest);
  if (!place) {
    ledger_.release(made.id);
    return Room::fragmented;
  }
  LW_CHECK(images_.emplace(job, Image{{*place, made.id}, bytes, {}}),
           "the job has an image already");
  *offset = *place;
  return Room::done;
}

bool PoolMap::is_range(Bytes offset, Bytes size) const {
  const Bytes end = ranges_.capacity();
  if (size <= Bytes(0) || size > end || offset < Bytes(0) || offset > end - size) return false;
  return offset.count() % alignment_ == 0 && size.count() % alignment_ == 0;
}

bool PoolMap::claim_image(JobId job, Bytes size, Bytes offset, Bytes range) {
  if (size < Bytes(0) || size > range || !is_range(offset, range)) return false;
  if (rounded(size) != range || images_.contains(job)) return false;
  const auto made =
      ledger_.claim(claim_of({OwnerKind::job, job.value()}, ClaimClass::persistent, range));
  if (made.outcome != LedgerOutcome::done) return false;
  if (!ranges_.allocate_at(offset, range)) {
    ledger_.release(made.id);
    return false;
  }
  images_.emplace(job, Image{{offset, made.id}, range, {}});
  return true;
}

void PoolMap::drop_image(JobId job) {
  const auto image = images_.find(job);
  LW_CHECK(image != images_.end(), "the job has no image");
  release(image->second.at);
  if (image->second.next) release(*image->second.next);
  images_.erase(image);
}

std::vector<PoolMap::ImageSize> PoolMap::image_sizes() const {
  std::vector<ImageSize> sizes;
  sizes.reserve(images_.size());
  for (const auto& [job, image] : images_) sizes.push_back({image.size, job});
  return sizes;
}

void PoolMap::release(const Place& place) {
  ranges_.free(place.offset);
  ledger_.release(place.claim);
}

std::optional<Bytes> PoolMap::begin_move(JobId job, MoveTo to) {
  Image& image = images_.at(job);
  LW_CHECK(!image.next, "the image moves already");
  std::optional<Bytes> place;
  switch (to) {
    case MoveTo::lowest: place = gap_below(image.size, ranges_.capacity()); break;
    case MoveTo::highest: place = highest_gap(image.size); break;
    case MoveTo::lower: place = gap_below(image.size, image.at.offset); break;
  }
  if (!place) return std::nullopt;
  const auto made =
      ledger_.claim(claim_of({OwnerKind::job, job.value()}, ClaimClass::persistent, image.size));
  if (made.outcome != LedgerOutcome::done) return std::nullopt;
  LW_CHECK(ranges_.allocate_at(*place, image.size), "the gap was free");
  image.next = Place{*place, made.id};
  return place;
}

void PoolMap::end_move(JobId job, bool moved) {
  Image& image = images_.at(job);
  LW_CHECK(image.next.has_value(), "the image does not move");
  if (moved) std::swap(image.at, *image.next);
  release(*image.next);
  image.next.reset();
}

void PoolMap::keep_prefix(JobId job, Bytes size) {
  const auto image = images_.find(job);
  LW_CHECK(image != images_.end(), "the job has no image");
  const Bytes offset = image->second.at.offset;
  LW_CHECK(size > Bytes(0) && size <= ranges_.size_of(offset), "a prefix is a part of its image");
  drop_image(job);
  LW_CHECK(claim_prefix(job, {offset, size}), "the image's own range was free");
}

bool PoolMap::grow_prefix(JobId job, Bytes size) {
  const ImagePrefix prefix = prefix_of(job);
  if (!prefix.exists()) return false;
  drop_prefix(job);
  if (claim_image(job, size, prefix.offset, rounded(size))) return true;
  LW_CHECK(claim_prefix(job, prefix), "the prefix's own range was free");
  return false;
}

bool PoolMap::claim_prefix(JobId job, const ImagePrefix& prefix) {
  if (!is_range(prefix.offset, prefix.size) || prefixes_.contains(job)) return false;
  Claim wanted = claim_of({OwnerKind::job, job.value()}, ClaimClass::persistent, prefix.size);
  wanted.revocation = memory::Revocation::on_demand;
  const auto made = ledger_.claim(wanted);
  if (made.outcome != LedgerOutcome::done) return false;
  if (!ranges_.allocate_at(prefix.offset, prefix.size)) {
    ledger_.release(made.id);
    return false;
  }
  prefixes_.emplace(job, Place{prefix.offset, made.id});
  return true;
}

bool PoolMap::drop_prefix(JobId job) {
  const auto prefix = prefixes_.find(job);
  if (prefix == prefixes_.end()) return false;
  release(prefix->second);
  prefixes_.erase(prefix);
  return true;
}

ImagePrefix PoolMap::prefix_of(JobId job) const {
  const auto prefix = prefixes_.find(job);
  if (prefix == prefixes_.end()) return {};
  return {prefix->second.offset, ranges_.size_of(prefix->second.offset)};
}

Room PoolMap::open_region(Region& region, Bytes size) {
  const Bytes bytes = rounded(size);
  const auto made = ledger_.claim(region_claim(region.id, bytes));
  if (made.outcome != LedgerOutcome::done) return Room::full;
  const std::optional<Bytes> place = ranges_.allocate(bytes, Placement::highest);
  if (!place) {
    ledger_.release(made.id);
    return Room::fragmented;
  }
  region.offset = *place;
  region.size = bytes;
  region.claim = made.id;
  return Room::done;
}

bool PoolMap::claim_region(Region& region) {
  if (!is_range(region.offset, region.size)) return false;
  const auto made = ledger_.claim(region_claim(region.id, region.size));
  if (made.outcome != LedgerOutcome::done) return false;
  if (!ranges_.allocate_at(region.offset, region.size)) {
    ledger_.release(made.id);
    return false;
  }
  region.claim = made.id;
  return true;
}

void PoolMap::close_region(Region& region) {
  ranges_.free(region.offset);
  ledger_.release(region.claim);
  region = Region{};
}

std::optional<Bytes> PoolMap::refit(Bytes offset, Bytes old_size, Bytes size) {
  if (const auto place = ranges_.resize(offset, size, Placement::highest)) return place;
  if (const auto place = ranges_.resize(offset, size, Placement::lowest)) return place;
  ranges_.free(offset);
  const std::optional<Bytes> moved = ranges_.allocate(size, Placement::highest);
  if (!moved) LW_CHECK(ranges_.allocate_at(offset, old_size), "the old range was free");
  return moved;
}

Room PoolMap::resize_region(Region& region, Bytes size) {
  const Bytes bytes = rounded(size);
  if (bytes == region.size) return Room::done;
  if (ledger_.resize(region.claim, bytes) != LedgerOutcome::done) return Room::full;
  const std::optional<Bytes> place = refit(region.offset, region.size, bytes);
  if (!place) {
    LW_CHECK(ledger_.resize(region.claim, region.size) == LedgerOutcome::done);
    return Room::fragmented;
  }
  region.offset = *place;
  region.size = bytes;
  return Room::done;
}

Room PoolMap::could_resize(const Region& region, Bytes size) {
  Region trial = region;
  const Room room = resize_region(trial, size);
  if (room != Room::done) return room;
  ranges_.free(trial.offset);
  LW_CHECK(ranges_.allocate_at(region.offset, region.size), "the old range was free");
  LW_CHECK(ledger_.resize(region.claim, region.size) == LedgerOutcome::done);
  return Room::done;
}

std::optional<Bytes> PoolMap::highest_gap(Bytes size, std::optional<Bytes> own) const {
  Bytes begin_of_last = ranges_.capacity();
  for (auto range = ranges_.taken().rbegin(); range != ranges_.taken().rend(); ++range) {
    if (Bytes(range->first) == own) continue;
    if (begin_of_last - Bytes(range->first + range->second) >= size) break;
    begin_of_last = Bytes(range->first);
  }
  if (begin_of_last < size) return std::nullopt;
  return begin_of_last - size;
}

void PoolMap::slide_up(std::vector<Region*> regions, Region* lowest) {
  const auto move = [this](Region& region, Bytes to) {
    if (region.offset == to) return false;
    ranges_.free(region.offset);
    LW_CHECK(ranges_.allocate_at(to, region.size), "the gap was free");
    region.offset = to;
    return true;
  };
  if (lowest != nullptr) {
    // Where it lies is free for itself.
    ranges_.free(lowest->offset);
    const std::optional<Bytes> gap = gap_below(lowest->size, ranges_.capacity());
    LW_CHECK(ranges_.allocate_at(lowest->offset, lowest->size), "its own range was free");
    move(*lowest, gap.value_or(lowest->offset));
  }
  bool moved = true;
  while (moved) {
    moved = false;
    std::sort(regions.begin(), regions.end(),
              [](const Region* a, const Region* b) { return a->offset > b->offset; });
    for (Region* region : regions) {
      // Its own range at least.
      moved = move(*region, *highest_gap(region->size, region->offset)) || moved;
    }
  }
}

// What slides up stays in its stretch between two ranges that do not slide, or goes to free bytes
// of those above.
Bytes PoolMap::most_free_after(std::span<const Bytes> sliding, std::span<const Bytes> gone) const {
  Bytes most;
  Bytes free_above;
  Bytes free;   // of the stretch
  Bytes slide;  // … and the bytes in it that slide
  const auto end_stretch = [&] {
    most = std::max(most, free + std::min(slide, free_above));
    free_above += free;
    free = slide = Bytes();
  };
  const auto is_last_of = [](std::span<const Bytes>& offsets, Bytes offset) {
    while (!offsets.empty() && offsets.back() > offset) offsets = offsets.first(offsets.size() - 1);
    return !offsets.empty() && offsets.back() == offset;
  };
  Bytes end = ranges_.capacity();
  for (auto range = ranges_.taken().rbegin(); range != ranges_.taken().rend(); ++range) {
    const Bytes offset(range->first);
    const Bytes size(range->second);
    free += end - (offset + size);
    end = offset;
    if (is_last_of(gone, offset)) {
      free += size;
    } else if (is_last_of(sliding, offset)) {
      slide += size;
    } else {
      end_stretch();
    }
  }
  free += end;
  end_stretch();
  return most;
}

std::optional<Bytes> PoolMap::gap_below(Bytes size, Bytes limit) const {
  int64_t end_of_last = 0;
  for (const auto& [offset, length] : ranges_.taken()) {
    const int64_t end = std::min(offset, limit.count());
    if (end - end_of_last >= size.count()) return Bytes(end_of_last);
    end_of_last = offset + length;
  }
  if (limit.count() - end_of_last >= size.count()) return Bytes(end_of_last);
  return std::nullopt;
}

bool PoolMap::could_move_below(const Region& region, Bytes limit) const {
  return gap_below(region.size, limit).has_value();
}

bool PoolMap::move_below(Region& region, Bytes limit) {
  const std::optional<Bytes> place = gap_below(region.size, limit);
  if (!place) return false;
  ranges_.free(region.offset);
  LW_CHECK(ranges_.allocate_at(*place, region.size), "the gap was free");
  region.offset = *place;
  return true;
}

bool PoolMap::set_capacity(Bytes capacity) {
  const Bytes rounded_capacity = rounded_down(capacity, alignment_);
  const Bytes before = ledger_.capacity();
  if (ledger_.set_capacity(rounded_capacity) != LedgerOutcome::done) return false;
  if (ranges_.set_capacity(rounded_capacity)) return true;
  LW_CHECK(ledger_.set_capacity(before) == LedgerOutcome::done);
  return false;
}

}  // namespace laneway::lanes
