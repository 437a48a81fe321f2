// Ledger: who holds which bytes of the pool, as claims, and the one rule that makes sharing safe:
// the sum of all claims never exceeds the capacity. Every byte that anything may use stands in a
// claim before it is used; nobody else adds bytes. The ledger knows amounts only: where they lie is
// the free list's matter. Deterministic, not thread-safe (the core's one thread touches it).
//
// What a claim counts: what it holds, but never less than its floor (the bytes that its owner was
// promised and may take at any time).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"

namespace laneway::memory {

enum class ClaimClass : uint8_t {
  persistent,  // an image
  region,      // ephemeral memory of a lane
  staging,     // buffers of copies
  overhead,    // contexts, handles, the operator's reserve
};
inline constexpr size_t kClaimClassCount = 4;

// When the bytes above the floor can be taken back.
enum class Revocation : uint8_t { never, boundary, on_demand };

enum class OwnerKind : uint8_t { service, session, job, region };
struct ClaimOwner {
  OwnerKind kind = OwnerKind::service;
  uint64_t id = 0;  // of that kind; 0 for the service
  friend auto operator<=>(const ClaimOwner&, const ClaimOwner&) = default;
};

struct Claim {
  ClaimOwner owner;
  ClaimClass claim_class = ClaimClass::persistent;
  Revocation revocation = Revocation::never;
  Bytes floor;                       // 0 <= floor <= ceiling
  Bytes held;                        // 0 <= held <= ceiling
  Bytes ceiling = Bytes(INT64_MAX);  // what the owner may hold at most

  Bytes counted() const { return held > floor ? held : floor; }
};

enum class LedgerOutcome : uint8_t {
  done,
  no_room,               // the other claims leave too little; waiting or eviction can help
  larger_than_capacity,  // not even an empty pool has room
  over_ceiling,          // the owner may not hold that much
  unknown_claim,         // no such claim (any more)
  invalid,               // a negative amount, or a floor above the ceiling
};

class Ledger {
 public:
  explicit Ledger(Bytes capacity);

  struct Made {
    LedgerOutcome outcome = LedgerOutcome::done;
    ClaimId id;  // valid only when done
  };
  // Enters a claim, or changes nothing.
  Made claim(const Claim& wanted);
  // Sets what a claim holds. Shrinking always succeeds.
  LedgerOutcome resize(ClaimId id, Bytes held);
  // Sets what a claim was promised.
  LedgerOutcome set_floor(ClaimId id, Bytes floor);
  LedgerOutcome release(ClaimId id);
  // no_room, and nothing changed, while the claims exceed the new capacity: release first.
  LedgerOutcome set_capacity(Bytes capacity);

  // Whether `more` bytes could be claimed now: done, no_room or larger_than_capacity.
  LedgerOutcome fits(Bytes more) const;

  // The claim, or nullptr. Valid until the next change.
  const Claim* find(ClaimId id) const;
  const std::map<ClaimId, Claim>& claims() const { return claims_; }

  Bytes capacity() const { return capacity_; }
  Bytes claimed() const { return claimed_; }
  Bytes free() const { return capacity_ - claimed_; }
  Bytes claimed(ClaimClass claim_class) const {
    return by_class_[static_cast<size_t>(claim_class)];
  }
  // What all claims together hold above their floors and could give back that quickly or quicker:
  // `boundary` includes what can be had on demand; `never` is 0.
  Bytes revocable(Revocation at_most) const;
  // What must be released before `needed` more bytes can be claimed; 0 when they fit.
  Bytes shortfall(Bytes needed) const;

 private:
  // Replaces what a claim counts; done, or why not.
  LedgerOutcome change(Claim& claim, const Claim& wanted);

  Bytes capacity_;
  Bytes claimed_;
  std::array<Bytes, kClaimClassCount> by_class_{};
  std::map<ClaimId, Claim> claims_;
  IdSource<ClaimId> ids_;
};

}  // namespace laneway::memory
