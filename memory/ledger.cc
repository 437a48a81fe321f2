#include "memory/ledger.h"

#include <algorithm>

#include "base/check.h"

namespace laneway::memory {

Ledger::Ledger(Bytes capacity) : capacity_(capacity) { LW_CHECK(capacity >= Bytes(0)); }

LedgerOutcome Ledger::fits(Bytes more) const {
  if (more > capacity_) return LedgerOutcome::larger_than_capacity;
  return more > free() ? LedgerOutcome::no_room : LedgerOutcome::done;
}

LedgerOutcome Ledger::change(Claim& claim, const Claim& wanted) {
  if (wanted.floor < Bytes(0) || wanted.held < Bytes(0) || wanted.floor > wanted.ceiling) {
    return LedgerOutcome::invalid;
  }
  if (wanted.held > wanted.ceiling) return LedgerOutcome::over_ceiling;
  const Bytes before = claim.counted();
  const Bytes after = wanted.counted();
  if (after > capacity_) return LedgerOutcome::larger_than_capacity;
  if (after > before && after - before > free()) return LedgerOutcome::no_room;
  above_floor(wanted.revocation) += (after - wanted.floor) - (before - claim.floor);
  claim = wanted;
  claimed_ += after - before;
  by_class_[static_cast<size_t>(wanted.claim_class)] += after - before;
  LW_CHECK(claimed_ <= capacity_, "claims exceed the capacity");
  return LedgerOutcome::done;
}

Ledger::Made Ledger::claim(const Claim& wanted) {
  Claim entered;  // counts nothing yet
  const LedgerOutcome outcome = change(entered, wanted);
  if (outcome != LedgerOutcome::done) return {outcome, {}};
  if (free_slots_.empty()) {
    free_slots_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const size_t number = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[number];
  ++slot.times;
  slot.claim = entered;
  slot.taken = true;
  return {LedgerOutcome::done, ClaimId(uint64_t{slot.times} << kSlotBits | (number + 1))};
}

void Ledger::enter_again(ClaimId id, const Claim& released) {
  Claim entered;
  LW_CHECK(change(entered, released) == LedgerOutcome::done, "a released claim has no room");
  // As a rule it is the one that was freed last.
  const auto place = std::find(free_slots_.rbegin(), free_slots_.rend(), slot_of(id));
  LW_CHECK(place != free_slots_.rend(), "the claim was not released");
  free_slots_.erase(std::next(place).base());
  slots_[slot_of(id)] = {.claim = entered, .times = times_of(id), .taken = true};
}

bool Ledger::has(ClaimId id) const {
  const size_t number = slot_of(id);
  return number < slots_.size() && slots_[number].taken && slots_[number].times == times_of(id);
}

LedgerOutcome Ledger::resize(ClaimId id, Bytes held) {
  if (!has(id)) return LedgerOutcome::unknown_claim;
  Claim& claim = slots_[slot_of(id)].claim;
  Claim wanted = claim;
  wanted.held = held;
  return change(claim, wanted);
}

LedgerOutcome Ledger::set_floor(ClaimId id, Bytes floor) {
  if (!has(id)) return LedgerOutcome::unknown_claim;
  Claim& claim = slots_[slot_of(id)].claim;
  Claim wanted = claim;
  wanted.floor = floor;
  return change(claim, wanted);
}

LedgerOutcome Ledger::release(ClaimId id) {
  if (!has(id)) return LedgerOutcome::unknown_claim;
  Slot& slot = slots_[slot_of(id)];
  const Bytes counted = slot.claim.counted();
  claimed_ -= counted;
  by_class_[static_cast<size_t>(slot.claim.claim_class)] -= counted;
  above_floor(slot.claim.revocation) -= counted - slot.claim.floor;
  slot.taken = false;
  free_slots_.push_back(slot_of(id));
  return LedgerOutcome::done;
}

LedgerOutcome Ledger::set_capacity(Bytes capacity) {
  if (capacity < Bytes(0)) return LedgerOutcome::invalid;
  if (claimed_ > capacity) return LedgerOutcome::no_room;
  capacity_ = capacity;
  return LedgerOutcome::done;
}

const Claim* Ledger::find(ClaimId id) const {
  return has(id) ? &slots_[slot_of(id)].claim : nullptr;
}

Bytes Ledger::revocable(Revocation at_most) const {
  if (at_most == Revocation::never) return {};
  const auto at = [this](Revocation when) { return above_floor_[static_cast<size_t>(when)]; };
  const Bytes on_demand = at(Revocation::on_demand);
  return at_most == Revocation::boundary ? on_demand + at(Revocation::boundary) : on_demand;
}

Bytes Ledger::shortfall(Bytes needed) const { return needed > free() ? needed - free() : Bytes(0); }

}  // namespace laneway::memory
