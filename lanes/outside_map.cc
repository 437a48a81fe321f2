#include "lanes/outside_map.h"

#include <algorithm>

#include "base/check.h"

namespace laneway::lanes {
namespace {

Bytes rounded_down(Bytes bytes, int64_t alignment) {
  return Bytes(bytes.count() & ~(alignment - 1));
}

}  // namespace

const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::none: return "nothing";
    case Tier::store: return "store";
    case Tier::spill: return "spill file";
  }
  return "unknown";
}

OutsideMap::OutsideMap(Bytes store, Bytes spill, int64_t alignment)
    : alignment_(alignment),
      store_{memory::Ledger(rounded_down(store, alignment)),
             memory::FreeList(rounded_down(store, alignment), alignment)},
      spill_{memory::Ledger(rounded_down(spill, alignment)),
             memory::FreeList(rounded_down(spill, alignment), alignment)} {
  LW_CHECK(store >= Bytes(0) && spill >= Bytes(0), "a tier has a negative capacity");
}

bool OutsideMap::claim(JobId job, Bytes size, const OutsidePlace& place) {
  if (place.tier != Tier::store && place.tier != Tier::spill) return false;
  Space& in = space(place.tier);
  const Bytes end = in.ranges.capacity();
  if (size < Bytes(0) || size > end || copies_.contains(job)) return false;
  const Bytes bytes = rounded(size);
  if (bytes > end || place.offset < Bytes(0) || place.offset > end - bytes) return false;
  if (place.offset.count() % alignment_ != 0) return false;
  memory::Claim wanted;
  wanted.owner = {memory::OwnerKind::job, job.value()};
  wanted.claim_class = memory::ClaimClass::persistent;
  wanted.held = bytes;
  const auto made = in.ledger.claim(wanted);
  if (made.outcome != memory::LedgerOutcome::done) return false;
  if (!in.ranges.allocate_at(place.offset, bytes)) {
    in.ledger.release(made.id);
    return false;
  }
  copies_.emplace(job, Copy{place, made.id});
  return true;
}

Bytes OutsideMap::rounded(Bytes size) const {
  return std::max(size, Bytes(1)).aligned_up(alignment_);
}

OutsidePlace OutsideMap::place_for(Bytes size) const {
  if (!could_ever_hold(size)) return {};
  for (const Tier tier : {Tier::store, Tier::spill}) {
    if (const auto offset = space(tier).ranges.find(rounded(size))) return {tier, *offset};
  }
  return {};
}

bool OutsideMap::exists() const {
  return store_.ranges.capacity() > Bytes(0) || spill_.ranges.capacity() > Bytes(0);
}

bool OutsideMap::could_ever_hold(Bytes size) const {
  const Bytes most = std::max(store_.ranges.capacity(), spill_.ranges.capacity());
  return size >= Bytes(0) && size <= most && rounded(size) <= most;
}

OutsidePlace OutsideMap::drop(JobId job) {
  const auto copy = copies_.find(job);
  if (copy == copies_.end()) return {};
  const OutsidePlace place = copy->second.place;
  Space& in = space(place.tier);
  in.ranges.free(place.offset);
  in.ledger.release(copy->second.claim);
  copies_.erase(copy);
  return place;
}

OutsidePlace OutsideMap::place_of(JobId job) const {
  const auto copy = copies_.find(job);
  return copy == copies_.end() ? OutsidePlace{} : copy->second.place;
}

}  // namespace laneway::lanes
