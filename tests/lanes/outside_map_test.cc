// Shows that a place outside of the pool is taken exactly when its tier exists and the range is
// aligned, inside the tier and free, and that per tier ledger and free list stay one: random claims
// and drops, numbers of nonsense among them, against a list of ranges that is searched afresh.
#include "lanes/pool/outside_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

constexpr int64_t kUnit = 64;

struct NaiveCopy {
  Tier tier;
  int64_t offset;
  int64_t size;
};

class Pair {
 public:
  Pair(int64_t store_units, int64_t spill_units)
      : store_(store_units * kUnit),
        spill_(spill_units * kUnit),
        real_(Bytes(store_), Bytes(spill_), kUnit) {}

  void step(Random& random) {
    const JobId job(1 + random.below(12));
    if (random.chance(0.3)) {
      EXPECT_EQ(real_.drop(job).tier != Tier::none, copies_.erase(job) > 0);
    } else {
      const Tier tier = static_cast<Tier>(random.below(4));  // the last one is no tier
      const int64_t offset = number(random);
      const int64_t size = number(random);
      const bool possible = allowed(job, tier, offset, size);
      ASSERT_EQ(real_.claim(job, Bytes(size), {tier, Bytes(offset)}), possible)
          << "tier " << static_cast<int>(tier) << ", " << size << " bytes at " << offset;
      if (possible) copies_[job] = {tier, offset, rounded(size)};
    }
    compare();
  }
  size_t copies() const { return copies_.size(); }

 private:
  static int64_t rounded(int64_t size) {
    return size == 0 ? kUnit : (size + kUnit - 1) / kUnit * kUnit;
  }
  int64_t number(Random& random) const {
    if (random.chance(0.03)) return INT64_MAX - static_cast<int64_t>(random.below(100));
    if (random.chance(0.03)) return INT64_MIN + static_cast<int64_t>(random.below(100));
    const int64_t units = random.between(-1, 12) * kUnit;
    return random.chance(0.1) ? units + random.between(-40, 40) : units;
  }
  bool allowed(JobId job, Tier tier, int64_t offset, int64_t size) const {
    if (tier != Tier::store && tier != Tier::spill) return false;
    const int64_t end = tier == Tier::store ? store_ : spill_;
    if (copies_.count(job) > 0 || size < 0 || size > end) return false;
    if (offset < 0 || offset % kUnit != 0 || offset > end - rounded(size)) return false;
    for (const auto& [id, copy] : copies_) {
      const bool apart = offset + rounded(size) <= copy.offset || copy.offset + copy.size <= offset;
      if (copy.tier == tier && !apart) return false;
    }
    return true;
  }
  void compare() const {
    for (const Tier tier : {Tier::store, Tier::spill}) {
      int64_t sum = 0;
      for (const auto& [id, copy] : copies_) sum += copy.tier == tier ? copy.size : 0;
      ASSERT_EQ(real_.ledger(tier).claimed(), Bytes(sum));
      ASSERT_EQ(real_.ranges(tier).taken_bytes(), Bytes(sum));
      ASSERT_LE(real_.ledger(tier).claimed(), real_.ledger(tier).capacity());
    }
    ASSERT_EQ(real_.copies(), copies_.size());
    for (const auto& [id, copy] : copies_) {
      ASSERT_EQ(real_.place_of(id), (OutsidePlace{copy.tier, Bytes(copy.offset)}));
    }
  }

  int64_t store_;
  int64_t spill_;
  OutsideMap real_;
  std::map<JobId, NaiveCopy> copies_;
};

TEST(OutsideMap, TakesExactlyWhatIsFreeInATierThatExists) {
  Random random(testing::seed_from_environment(5));
  size_t most = 0;
  for (int round = 0; round < 60; ++round) {
    Pair pair(random.between(0, 16), random.chance(0.3) ? 0 : random.between(1, 40));
    for (int i = 0; i < 200; ++i) {
      pair.step(random);
      if (::testing::Test::HasFatalFailure()) return;
      most = std::max(most, pair.copies());
    }
  }
  EXPECT_GE(most, 3u) << "the tiers were hardly used";
}

TEST(OutsideMap, AHomeIsTheJobsOwnWhereverItsCopyLies) {
  OutsideMap map{Bytes(4 * kUnit), Bytes(4 * kUnit), kUnit};
  const JobId a(1), b(2), c(3);
  ASSERT_TRUE(map.give_home(a, Bytes(3 * kUnit)));
  EXPECT_EQ(map.home_of(a), (OutsidePlace{Tier::spill, Bytes()}));
  ASSERT_TRUE(map.give_home(b, Bytes(2 * kUnit)));
  EXPECT_EQ(map.home_of(b), (OutsidePlace{Tier::store, Bytes()}));
  EXPECT_FALSE(map.give_home(c, Bytes(3 * kUnit)));
  EXPECT_EQ(map.place_for(c).tier, Tier::none);
  EXPECT_EQ(map.place_for(b), map.home_of(b));
  EXPECT_FALSE(map.claim(c, Bytes(2 * kUnit), map.home_of(b))) << "it is another one's";
  EXPECT_TRUE(map.claim(b, Bytes(2 * kUnit), map.home_of(b)));
  EXPECT_FALSE(map.is_out(b));
  EXPECT_EQ(map.place_for(a), map.home_of(a)) << "the store has no three in one piece";
  EXPECT_EQ(map.ledger(Tier::store).claimed(), Bytes(2 * kUnit)) << "home and copy are one range";
  map.drop(b);
  EXPECT_EQ(map.ledger(Tier::store).claimed(), Bytes(2 * kUnit)) << "the home stays";
}

TEST(OutsideMap, ACopysPlaceBecomesTheHomeAndTheFormerOneIsFree) {
  OutsideMap map{Bytes(4 * kUnit), Bytes(4 * kUnit), kUnit};
  const JobId a(1);
  ASSERT_TRUE(map.give_home(a, Bytes(4 * kUnit)));
  const OutsidePlace store = map.place_for(a);
  EXPECT_EQ(store.tier, Tier::store);
  ASSERT_TRUE(map.claim(a, Bytes(4 * kUnit), store));
  EXPECT_TRUE(map.is_out(a));
  map.make_copy_its_home(a);
  EXPECT_EQ(map.home_of(a), store);
  EXPECT_EQ(map.ledger(Tier::spill).claimed(), Bytes());
  EXPECT_TRUE(map.drop_home(a));
  EXPECT_EQ(map.place_of(a), store) << "the copy keeps its place";
  map.drop(a);
  EXPECT_EQ(map.ledger(Tier::store).claimed(), Bytes());
  EXPECT_EQ(map.homes(), 0u);
}

TEST(OutsideMap, ATierOfNoBytesHasNoPlace) {
  OutsideMap map{Bytes(), Bytes(kUnit), kUnit};
  EXPECT_FALSE(map.claim(JobId(1), Bytes(1), {Tier::store, Bytes()}));
  EXPECT_TRUE(map.claim(JobId(1), Bytes(1), {Tier::spill, Bytes()}));
  EXPECT_EQ(map.place_of(JobId(2)).tier, Tier::none);
}

// Whoever has its home where copies cost less has nothing to look for elsewhere.
TEST(OutsideMap, ACopyGoesToNoTierThatCostsMoreThanItsHome) {
  OutsideMap map(kib(64), kib(64), 64);
  ASSERT_TRUE(map.give_home(JobId(1), kib(64)));
  ASSERT_TRUE(map.give_home(JobId(2), kib(16)));
  ASSERT_EQ(map.home_of(JobId(1)).tier, Tier::spill);
  ASSERT_EQ(map.home_of(JobId(2)).tier, Tier::store);
  ASSERT_TRUE(map.drop_home(JobId(1)));
  EXPECT_EQ(map.place_for(JobId(2)), map.home_of(JobId(2))) << "the spill file has room";
  EXPECT_EQ(map.cheapest(), Tier::store);
  EXPECT_EQ(OutsideMap(Bytes(), kib(64), 64).cheapest(), Tier::spill);
  EXPECT_FALSE(OutsideMap(Bytes(), Bytes(), 64).exists());
  EXPECT_EQ(map.capacity(), kib(128));
  EXPECT_EQ(map.largest_free(), kib(64));
}

}  // namespace
}  // namespace laneway::lanes
