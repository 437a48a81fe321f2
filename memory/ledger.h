// Ledger: records as claims which owner holds how many bytes of the pool, and holds the one rule
// that makes sharing safe: the sum of all claims never exceeds the capacity. Every byte stands in a
// claim before it is used; only the ledger adds bytes. The ledger has amounts only; a free list has
// the offsets. Deterministic, not thread-safe (only the core's thread uses it).
//
// A claim counts as the bytes that it holds, but never less than its floor: the bytes that its
// owner was promised and may take at any time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

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

// When the service can take back the bytes above the floor.
enum class Revocation : uint8_t { never, boundary, on_demand };
inline constexpr size_t kRevocationCount = 3;

enum class OwnerKind : uint8_t { service, session, job, region };
struct ClaimOwner {
  OwnerKind kind = OwnerKind::service;
  uint64_t id = 0;  // an id of that kind; 0 for the service
  friend auto operator<=>(const ClaimOwner&, const ClaimOwner&) = default;
};

struct Claim {
  ClaimOwner owner;
  ClaimClass claim_class = ClaimClass::persistent;
  Revocation revocation = Revocation::never;
  Bytes floor;                       // 0 <= floor <= ceiling
  Bytes held;                        // 0 <= held <= ceiling
  Bytes ceiling = Bytes(INT64_MAX);  // the most that the owner may hold

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
  // Enters a claim, or changes nothing and returns why not.
  Made claim(const Claim& wanted);
  // Sets the bytes that a claim holds. Shrinking always succeeds.
  LedgerOutcome resize(ClaimId id, Bytes held);
  // Sets the bytes that a claim's owner was promised.
  LedgerOutcome set_floor(ClaimId id, Bytes floor);
  LedgerOutcome release(ClaimId id);
  // Takes a release back. Requires: the claim was released with these amounts, and fits again.
  void enter_again(ClaimId id, const Claim& released);
  // Returns no_room and changes nothing while the claims exceed the new capacity: release some
  // first.
  LedgerOutcome set_capacity(Bytes capacity);

  // Whether `more` bytes could be claimed now: done, no_room or larger_than_capacity.
  LedgerOutcome fits(Bytes more) const;

  // The claim, or nullptr. Valid until the next change.
  const Claim* find(ClaimId id) const;

  Bytes capacity() const { return capacity_; }
  Bytes claimed() const { return claimed_; }
  Bytes free() const { return capacity_ - claimed_; }
  Bytes claimed(ClaimClass claim_class) const {
    return by_class_[static_cast<size_t>(claim_class)];
  }
  // The bytes that all claims together hold above their floors and that can be taken back at
  // `at_most` or sooner: `boundary` includes the claims that can be revoked on demand; `never`
  // gives 0.
  Bytes revocable(Revocation at_most) const;
  // The bytes that must be released before `needed` more bytes can be claimed; 0 when they fit.
  Bytes shortfall(Bytes needed) const;

 private:
  Bytes& above_floor(Revocation revocation) {
    return above_floor_[static_cast<size_t>(revocation)];
  }
  // Replaces a claim's amounts. Returns done, or why it changed nothing.
  LedgerOutcome change(Claim& claim, const Claim& wanted);

  Bytes capacity_;
  Bytes claimed_;
  std::array<Bytes, kClaimClassCount> by_class_{};
  std::array<Bytes, kRevocationCount> above_floor_{};  // by when it can be taken back
  // Where a claim stands; its id says which slot, and how often that was taken then, so that what
  // stands there later is not taken for it.
  struct Slot {
    Claim claim;
    uint32_t times = 0;
    bool taken = false;
  };
  static constexpr int kSlotBits = 32;
  static size_t slot_of(ClaimId id) { return static_cast<uint32_t>(id.value()) - size_t{1}; }
  static uint32_t times_of(ClaimId id) { return static_cast<uint32_t>(id.value() >> kSlotBits); }
  bool has(ClaimId id) const;

  std::vector<Slot> slots_;
  std::vector<size_t> free_slots_;  // the one freed last is taken first: its memory is near
};

}  // namespace laneway::memory
