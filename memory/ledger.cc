#include "memory/ledger.h"

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
  const ClaimId id = ids_.next();
  claims_.emplace(id, entered);
  return {LedgerOutcome::done, id};
}

void Ledger::enter_again(ClaimId id, const Claim& released) {
  Claim entered;
  LW_CHECK(change(entered, released) == LedgerOutcome::done, "a released claim has no room");
  LW_CHECK(claims_.emplace(id, entered).second, "the claim was not released");
}

LedgerOutcome Ledger::resize(ClaimId id, Bytes held) {
  const auto entry = claims_.find(id);
  if (entry == claims_.end()) return LedgerOutcome::unknown_claim;
  Claim wanted = entry->second;
  wanted.held = held;
  return change(entry->second, wanted);
}

LedgerOutcome Ledger::set_floor(ClaimId id, Bytes floor) {
  const auto entry = claims_.find(id);
  if (entry == claims_.end()) return LedgerOutcome::unknown_claim;
  Claim wanted = entry->second;
  wanted.floor = floor;
  return change(entry->second, wanted);
}

LedgerOutcome Ledger::release(ClaimId id) {
  const auto entry = claims_.find(id);
  if (entry == claims_.end()) return LedgerOutcome::unknown_claim;
  const Bytes counted = entry->second.counted();
  claimed_ -= counted;
  by_class_[static_cast<size_t>(entry->second.claim_class)] -= counted;
  above_floor(entry->second.revocation) -= counted - entry->second.floor;
  claims_.erase(entry);
  return LedgerOutcome::done;
}

LedgerOutcome Ledger::set_capacity(Bytes capacity) {
  if (capacity < Bytes(0)) return LedgerOutcome::invalid;
  if (claimed_ > capacity) return LedgerOutcome::no_room;
  capacity_ = capacity;
  return LedgerOutcome::done;
}

const Claim* Ledger::find(ClaimId id) const {
  const auto entry = claims_.find(id);
  return entry == claims_.end() ? nullptr : &entry->second;
}

Bytes Ledger::revocable(Revocation at_most) const {
  if (at_most == Revocation::never) return {};
  const auto at = [this](Revocation when) { return above_floor_[static_cast<size_t>(when)]; };
  const Bytes on_demand = at(Revocation::on_demand);
  return at_most == Revocation::boundary ? on_demand + at(Revocation::boundary) : on_demand;
}

Bytes Ledger::shortfall(Bytes needed) const { return needed > free() ? needed - free() : Bytes(0); }

}  // namespace laneway::memory
