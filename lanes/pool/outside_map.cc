#include "lanes/pool/outside_map.h"

#include <algorithm>

#include "base/check.h"

namespace laneway::lanes {
namespace {

bool is_tier(Tier tier) { return std::find(kTiers.begin(), kTiers.end(), tier) != kTiers.end(); }

}  // namespace

const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::none: return "nothing";
    case Tier::store: return "store";
    case Tier::spill: return "spill file";
  }
  return "unknown";
}

OutsideMap::Space OutsideMap::space_of(Bytes capacity, int64_t alignment) {
  LW_CHECK(capacity >= Bytes(0), "a tier has a negative capacity");
  const Bytes whole(capacity.count() & ~(alignment - 1));
  return {memory::Ledger(whole), memory::FreeList(whole, alignment)};
}

OutsideMap::OutsideMap(Bytes store, Bytes spill, int64_t alignment)
    : alignment_(alignment),
      spaces_{
          {space_of(Bytes(), alignment), space_of(store, alignment), space_of(spill, alignment)}} {}

bool OutsideMap::claim(JobId job, Bytes size, const OutsidePlace& place) {
  if (!is_tier(place.tier)) return false;
  const Bytes end = space(place.tier).ranges.capacity();
  if (size < Bytes(0) || size > end || copies_.contains(job)) return false;
  const Bytes bytes = rounded(size);
  if (bytes > end || place.offset < Bytes(0) || place.offset > end - bytes) return false;
  if (place.offset.count() % alignment_ != 0) return false;
  const auto home = homes_.find(job);
  if (home != homes_.end() && home->second.place == place) {
    if (home->second.size != bytes) return false;
    copies_.emplace(job, Copy{place, ClaimId()});
    return true;
  }
  const ClaimId made = take(job, bytes, place);
  if (made.valid()) copies_.emplace(job, Copy{place, made});
  return made.valid();
}

ClaimId OutsideMap::take(JobId job, Bytes bytes, const OutsidePlace& place) {
  Space& in = space(place.tier);
  memory::Claim wanted;
  wanted.owner = {memory::OwnerKind::job, job.value()};
  wanted.claim_class = memory::ClaimClass::persistent;
  wanted.held = bytes;
  const auto made = in.ledger.claim(wanted);
  if (made.outcome != memory::LedgerOutcome::done) return {};
  if (in.ranges.allocate_at(place.offset, bytes)) return made.id;
  in.ledger.release(made.id);
  return {};
}

void OutsideMap::free(const OutsidePlace& place, ClaimId claim) {
  Space& in = space(place.tier);
  in.ranges.free(place.offset);
  in.ledger.release(claim);
}

Bytes OutsideMap::rounded(Bytes size) const {
  return std::max(size, Bytes(1)).aligned_up(alignment_);
}

OutsidePlace OutsideMap::place_for(JobId job) const {
  const auto home = homes_.find(job);
  if (home == homes_.end()) return {};
  for (const Tier tier : kTiers) {
    if (tier == home->second.place.tier) break;
    const auto offset = space(tier).ranges.find(home->second.size);
    if (offset) return {tier, *offset};
  }
  return home->second.place;
}

Tier OutsideMap::cheapest() const {
  for (const Tier tier : kTiers) {
    if (space(tier).ranges.capacity() > Bytes(0)) return tier;
  }
  return Tier::none;
}

Bytes OutsideMap::capacity() const {
  Bytes all;
  for (const Space& space : spaces_.values) all += space.ledger.capacity();
  return all;
}

Bytes OutsideMap::largest_free() const {
  Bytes largest;
  for (const Space& space : spaces_.values)
    largest = std::max(largest, space.ranges.largest_free());
  return largest;
}

bool OutsideMap::could_ever_hold(Bytes size) const {
  Bytes most;
  for (const Space& space : spaces_.values) most = std::max(most, space.ranges.capacity());
  return size >= Bytes(0) && size <= most && rounded(size) <= most;
}

OutsidePlace OutsideMap::drop(JobId job) {
  const auto copy = copies_.find(job);
  if (copy == copies_.end()) return {};
  const OutsidePlace place = copy->second.place;
  if (copy->second.claim.valid()) free(place, copy->second.claim);
  copies_.erase(copy);
  return place;
}

OutsidePlace OutsideMap::place_of(JobId job) const {
  const auto copy = copies_.find(job);
  return copy == copies_.end() ? OutsidePlace{} : copy->second.place;
}

OutsidePlace OutsideMap::free_place(Bytes size) const {
  if (!could_ever_hold(size)) return {};
  for (auto tier = kTiers.rbegin(); tier != kTiers.rend(); ++tier) {
    if (const auto offset = space(*tier).ranges.find(rounded(size))) return {*tier, *offset};
  }
  return {};
}

bool OutsideMap::give_home(JobId job, Bytes size) {
  LW_CHECK(!homes_.contains(job) && !copies_.contains(job), "it has a place outside already");
  const OutsidePlace place = free_place(size);
  if (place.tier == Tier::none) return false;
  const Bytes bytes = rounded(size);
  const ClaimId made = take(job, bytes, place);
  LW_CHECK(made.valid(), "the range was free");
  homes_.emplace(job, Home{place, bytes, made});
  return true;
}

void OutsideMap::make_copy_its_home(JobId job) {
  const auto copy = copies_.find(job);
  LW_CHECK(copy != copies_.end(), "it has no copy");
  if (!copy->second.claim.valid()) return;  // it lies at home
  drop_home(job);
  const OutsidePlace& place = copy->second.place;
  const auto taken = space(place.tier).ranges.taken().find(place.offset.count());
  homes_.emplace(job, Home{place, Bytes(taken->second), copy->second.claim});
  copy->second.claim = {};
}

bool OutsideMap::drop_home(JobId job) {
  const auto home = homes_.find(job);
  if (home == homes_.end()) return false;
  const auto copy = copies_.find(job);
  if (copy != copies_.end() && !copy->second.claim.valid()) {
    copy->second.claim = home->second.claim;
  } else {
    free(home->second.place, home->second.claim);
  }
  homes_.erase(home);
  return true;
}

OutsidePlace OutsideMap::home_of(JobId job) const {
  const auto home = homes_.find(job);
  return home == homes_.end() ? OutsidePlace{} : home->second.place;
}

bool OutsideMap::is_out(JobId job) const {
  const auto copy = copies_.find(job);
  return copy != copies_.end() && copy->second.claim.valid();
}

}  // namespace laneway::lanes
