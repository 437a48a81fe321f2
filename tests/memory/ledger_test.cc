// Shows that the sum of claims never exceeds the capacity and that every request is answered by
// the plain arithmetic, by playing random requests to the ledger and to a naive list of claims that
// is summed afresh each time.
#include "memory/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

Claim simple(Bytes held, ClaimClass claim_class = ClaimClass::persistent) {
  Claim claim;
  claim.claim_class = claim_class;
  claim.held = held;
  return claim;
}

struct NaiveClaim {
  ClaimId id;
  int64_t floor, held, ceiling;
  ClaimClass claim_class;
  Revocation revocation;
  int64_t counted() const { return std::max(floor, held); }
};

// What the rules say, from sums alone.
LedgerOutcome verdict(const std::vector<NaiveClaim>& others, const NaiveClaim& wanted,
                      int64_t counted_before, int64_t capacity) {
  if (wanted.floor < 0 || wanted.held < 0 || wanted.floor > wanted.ceiling) {
    return LedgerOutcome::invalid;
  }
  if (wanted.held > wanted.ceiling) return LedgerOutcome::over_ceiling;
  if (wanted.counted() > capacity) return LedgerOutcome::larger_than_capacity;
  int64_t sum = wanted.counted();
  for (const NaiveClaim& other : others) sum += other.counted();
  const bool grows = wanted.counted() > counted_before;
  return grows && sum > capacity ? LedgerOutcome::no_room : LedgerOutcome::done;
}

class Pair {
 public:
  explicit Pair(int64_t capacity) : capacity_(capacity), real_(Bytes(capacity)) {}

  void step(Random& random) {
    const uint64_t what = claims_.empty() ? 0 : random.below(6);
    if (what <= 1) enter(random);
    if (what == 2) change(random, &NaiveClaim::held);
    if (what == 3) change(random, &NaiveClaim::floor);
    if (what == 4) release(random.below(claims_.size()));
    if (what == 5) set_capacity(random.between(0, 2000));
    compare();
  }

 private:
  void enter(Random& random) {
    NaiveClaim wanted{{},
                      random.chance(0.5) ? 0 : random.between(-5, 300),
                      random.between(-5, 500),
                      random.chance(0.5) ? INT64_MAX : random.between(0, 600),
                      static_cast<ClaimClass>(random.below(kClaimClassCount)),
                      static_cast<Revocation>(random.below(3))};
    Claim claim;
    claim.claim_class = wanted.claim_class;
    claim.revocation = wanted.revocation;
    claim.floor = Bytes(wanted.floor);
    claim.held = Bytes(wanted.held);
    claim.ceiling = Bytes(wanted.ceiling);
    const Ledger::Made made = real_.claim(claim);
    ASSERT_EQ(made.outcome, verdict(claims_, wanted, 0, capacity_));
    ASSERT_EQ(made.id.valid(), made.outcome == LedgerOutcome::done);
    wanted.id = made.id;
    if (made.id.valid()) claims_.push_back(wanted);
  }
  void change(Random& random, int64_t NaiveClaim::*field) {
    const size_t which = random.below(claims_.size());
    std::vector<NaiveClaim> others = claims_;
    NaiveClaim wanted = others[which];
    others.erase(others.begin() + static_cast<ptrdiff_t>(which));
    wanted.*field = random.between(-5, 700);
    const LedgerOutcome expected = verdict(others, wanted, claims_[which].counted(), capacity_);
    const Bytes amount(wanted.*field);
    const LedgerOutcome got = field == &NaiveClaim::held ? real_.resize(wanted.id, amount)
                                                         : real_.set_floor(wanted.id, amount);
    ASSERT_EQ(got, expected);
    if (got == LedgerOutcome::done) claims_[which] = wanted;
  }
  void release(size_t which) {
    const ClaimId id = claims_[which].id;
    const Claim claim = *real_.find(id);
    ASSERT_EQ(real_.release(id), LedgerOutcome::done);
    real_.enter_again(id, claim);
    compare();
    ASSERT_EQ(real_.find(id)->held, claim.held);
    claims_.erase(claims_.begin() + static_cast<ptrdiff_t>(which));
    ASSERT_EQ(real_.release(id), LedgerOutcome::done);
    ASSERT_EQ(real_.release(id), LedgerOutcome::unknown_claim);
    ASSERT_EQ(real_.resize(id, Bytes(1)), LedgerOutcome::unknown_claim);
    ASSERT_EQ(real_.find(id), nullptr);
    gone_.push_back(id);
  }
  void set_capacity(int64_t capacity) {
    const bool fits = sum([](const NaiveClaim&) { return true; }) <= capacity;
    ASSERT_EQ(real_.set_capacity(Bytes(capacity)),
              fits ? LedgerOutcome::done : LedgerOutcome::no_room);
    if (fits) capacity_ = capacity;
  }
  template <class Keep>
  int64_t sum(Keep keep) const {
    int64_t total = 0;
    for (const NaiveClaim& claim : claims_) total += keep(claim) ? claim.counted() : 0;
    return total;
  }
  void compare() const {
    // Whatever stands in its place by now.
    for (const ClaimId id : gone_) ASSERT_EQ(real_.find(id), nullptr);
    const int64_t total = sum([](const NaiveClaim&) { return true; });
    ASSERT_LE(total, capacity_);
    ASSERT_EQ(real_.claimed(), Bytes(total));
    ASSERT_EQ(real_.free(), Bytes(capacity_ - total));
    for (size_t i = 0; i < kClaimClassCount; ++i) {
      const auto wanted = static_cast<ClaimClass>(i);
      ASSERT_EQ(real_.claimed(wanted).count(),
                sum([&](const NaiveClaim& claim) { return claim.claim_class == wanted; }));
    }
    int64_t at_boundary = 0;
    int64_t on_demand = 0;
    for (const NaiveClaim& claim : claims_) {
      const int64_t above = claim.counted() - claim.floor;
      if (claim.revocation != Revocation::never) at_boundary += above;
      if (claim.revocation == Revocation::on_demand) on_demand += above;
    }
    ASSERT_EQ(real_.revocable(Revocation::boundary), Bytes(at_boundary));
    ASSERT_EQ(real_.revocable(Revocation::on_demand), Bytes(on_demand));
    ASSERT_EQ(real_.revocable(Revocation::never), Bytes(0));
  }

  int64_t capacity_;
  Ledger real_;
  std::vector<NaiveClaim> claims_;
  std::vector<ClaimId> gone_;
};

TEST(Ledger, AgreesWithSummingAfresh) {
  Random random(testing::seed_from_environment(2));
  for (int round = 0; round < 50; ++round) {
    Pair pair(random.between(0, 2000));
    for (int i = 0; i < 200; ++i) {
      pair.step(random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Ledger, TellsWhatWaitingCanHelpFromWhatItCannot) {
  Ledger ledger(mib(10));
  ASSERT_EQ(ledger.claim(simple(mib(8))).outcome, LedgerOutcome::done);
  EXPECT_EQ(ledger.fits(mib(2)), LedgerOutcome::done);
  EXPECT_EQ(ledger.fits(mib(3)), LedgerOutcome::no_room);
  EXPECT_EQ(ledger.shortfall(mib(3)), mib(1));
  EXPECT_EQ(ledger.fits(mib(11)), LedgerOutcome::larger_than_capacity);
  EXPECT_EQ(ledger.claim(simple(mib(11))).outcome, LedgerOutcome::larger_than_capacity);
}

TEST(Ledger, ClaimsCountTheirFloorEvenWhenTheyHoldLess) {
  Ledger ledger(mib(10));
  Claim pool = simple(mib(1), ClaimClass::staging);
  pool.floor = mib(6);
  pool.revocation = Revocation::on_demand;
  const ClaimId id = ledger.claim(pool).id;
  EXPECT_EQ(ledger.claimed(ClaimClass::staging), mib(6));
  EXPECT_EQ(ledger.claim(simple(mib(5))).outcome, LedgerOutcome::no_room);
  ASSERT_EQ(ledger.resize(id, mib(9)), LedgerOutcome::done);
  EXPECT_EQ(ledger.revocable(Revocation::on_demand), mib(3));
  EXPECT_EQ(ledger.claim(simple(mib(4))).outcome, LedgerOutcome::no_room);
  ASSERT_EQ(ledger.resize(id, mib(0)), LedgerOutcome::done);
  EXPECT_EQ(ledger.claim(simple(mib(4))).outcome, LedgerOutcome::done);
}

}  // namespace
}  // namespace laneway::memory
