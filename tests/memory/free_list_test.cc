// Shows that the free list never gives a byte twice and never loses one, by playing random
// requests to it and to a naive model (one flag for each unit of the space), and that best fit and
// the two directions choose what they promise, on small cases.
#include "memory/free_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

constexpr int64_t kUnit = 64;

// The space as flags, one a unit. Knows the rules, searches by brute force.
class NaiveSpace {
 public:
  explicit NaiveSpace(int64_t units) : taken_(static_cast<size_t>(units), false) {}

  struct Piece {
    int64_t start;
    int64_t length;
  };
  std::vector<Piece> free_pieces() const {
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < units(); ++i) {
      if (taken_[i]) continue;
      if (i > 0 && !taken_[i - 1]) {
        ++pieces.back().length;
      } else {
        pieces.push_back({i, 1});
      }
    }
    return pieces;
  }
  // Start of the best fit, or -1.
  int64_t best_fit(int64_t length, Placement placement) const {
    Piece best{-1, INT64_MAX};
    for (const Piece& piece : free_pieces()) {
      if (piece.length < length) continue;
      const bool better =
          placement == Placement::lowest ? piece.length < best.length : piece.length <= best.length;
      if (better) best = piece;
    }
    if (best.start < 0) return -1;
    return placement == Placement::lowest ? best.start : best.start + best.length - length;
  }
  bool is_free(int64_t start, int64_t length) const {
    if (start < 0 || start + length > units()) return false;
    return std::none_of(taken_.begin() + start, taken_.begin() + start + length,
                        [](bool taken) { return taken; });
  }
  void set(int64_t start, int64_t length, bool taken) {
    std::fill(taken_.begin() + start, taken_.begin() + start + length, taken);
  }
  void resize(int64_t units) { taken_.resize(static_cast<size_t>(units), false); }
  int64_t units() const { return static_cast<int64_t>(taken_.size()); }
  int64_t longest_below(int64_t limit) const {
    int64_t longest = 0;
    for (const Piece& piece : free_pieces()) {
      longest = std::max(longest, std::min(piece.start + piece.length, limit) - piece.start);
    }
    return longest;
  }

 private:
  std::vector<bool> taken_;
};

// Drives both and compares after every request.
class Pair {
 public:
  explicit Pair(int64_t units) : real_(Bytes(units * kUnit), kUnit), naive_(units) {}

  void step(Random& random) {
    const auto length = static_cast<int64_t>(random.below(12) + 1);
    const Placement placement = random.chance(0.5) ? Placement::lowest : Placement::highest;
    switch (random.below(7)) {
      case 0:
      case 1: allocate(length, placement, static_cast<int64_t>(random.below(kUnit))); break;
      case 2: allocate_at(static_cast<int64_t>(random.below(90)), length); break;
      case 3:
      case 4:
        if (!ranges_.empty()) {
          auto range = std::next(ranges_.begin(), random.below(ranges_.size()));
          random.chance(0.4) ? resize(range, length, placement) : free(range);
        }
        break;
      case 5: set_capacity(static_cast<int64_t>(random.below(40) + 60)); break;
      case 6: scatter_from(random, random.between(0, 90)); break;
    }
    compare();
  }

 private:
  using Range = std::map<int64_t, int64_t>::iterator;

  void allocate(int64_t length, Placement placement, int64_t shave) {
    const auto found = real_.find(Bytes(length * kUnit - shave));
    const int64_t lowest = naive_.best_fit(length, Placement::lowest);
    ASSERT_EQ(found ? found->count() : -kUnit, lowest * kUnit);
    const auto got = real_.allocate(Bytes(length * kUnit - shave), placement);
    const int64_t expected = naive_.best_fit(length, placement);
    ASSERT_EQ(got ? got->count() : -kUnit, expected * kUnit);
    if (got) take(expected, length);
  }
  void allocate_at(int64_t start, int64_t length) {
    const bool expected = naive_.is_free(start, length);
    ASSERT_EQ(real_.allocate_at(Bytes(start * kUnit), Bytes(length * kUnit)), expected);
    if (expected) take(start, length);
  }
  void free(Range range) {
    real_.free(Bytes(range->first * kUnit));
    naive_.set(range->first, range->second, false);
    ranges_.erase(range);
  }
  void resize(Range range, int64_t length, Placement kept) {
    const auto [start, old_length] = *range;
    naive_.set(start, old_length, false);
    const int64_t wanted = kept == Placement::lowest ? start : start + old_length - length;
    const bool fits = naive_.is_free(wanted, length);
    const auto got = real_.resize(Bytes(start * kUnit), Bytes(length * kUnit), kept);
    ASSERT_EQ(got.has_value(), fits);
    ranges_.erase(range);
    fits ? take(wanted, length) : take(start, old_length);
  }
  void set_capacity(int64_t units) {
    const bool fits = units >= naive_.units() || naive_.is_free(units, naive_.units() - units);
    ASSERT_EQ(real_.set_capacity(Bytes(units * kUnit)), fits);
    if (fits) naive_.resize(units);
  }
  // All ranges from `lowest` up go elsewhere, or some of them do.
  void scatter_from(Random& random, int64_t lowest) {
    const auto first = ranges_.lower_bound(lowest);
    const std::vector<std::pair<int64_t, int64_t>> some(first, ranges_.end());
    ranges_.erase(first, ranges_.end());
    for (const auto& [start, length] : some) naive_.set(start, length, false);
    std::vector<int64_t> starts;
    for (const auto& [start, length] : some) {
      int64_t to = start;
      const auto is_taken = [&](int64_t at) {
        return !naive_.is_free(at, some[starts.size()].second);
      };
      for (int tries = 0; tries < 8; ++tries) {
        to = random.chance(0.3) ? start : random.between(lowest, naive_.units());
        if (!is_taken(to)) break;
      }
      if (is_taken(to)) break;
      naive_.set(to, length, true);
      starts.push_back(to);
    }
    const bool all = starts.size() == some.size();
    for (size_t i = 0; i < starts.size(); ++i) naive_.set(starts[i], some[i].second, false);
    for (size_t i = 0; i < some.size(); ++i) take(all ? starts[i] : some[i].first, some[i].second);
    std::vector<FreeList::Range> now;
    for (auto range = ranges_.lower_bound(lowest); range != ranges_.end(); ++range) {
      now.push_back({range->first * kUnit, range->second * kUnit});
    }
    real_.set_taken_from(Bytes(lowest * kUnit), now);
  }
  void take(int64_t start, int64_t length) {
    naive_.set(start, length, true);
    ranges_[start] = length;
  }
  void compare() const {
    const auto pieces = naive_.free_pieces();
    int64_t free_units = 0;
    for (const auto& piece : pieces) free_units += piece.length;
    ASSERT_EQ(real_.free_bytes().count(), free_units * kUnit);
    ASSERT_EQ(real_.taken_bytes().count(), (naive_.units() - free_units) * kUnit);
    ASSERT_EQ(real_.free_pieces(), pieces.size());  // everything that touches is merged
    ASSERT_EQ(real_.largest_free().count(), naive_.longest_below(naive_.units()) * kUnit);
    ASSERT_EQ(real_.largest_free_below(Bytes(50 * kUnit)).count(),
              naive_.longest_below(50) * kUnit);
    ASSERT_EQ(real_.taken_count(), ranges_.size());
    for (const auto& [start, length] : ranges_) {
      ASSERT_EQ(real_.size_of(Bytes(start * kUnit)), Bytes(length * kUnit));
    }
  }

  FreeList real_;
  NaiveSpace naive_;
  std::map<int64_t, int64_t> ranges_;
};

TEST(FreeList, AgreesWithOneFlagAUnit) {
  Random random(testing::seed_from_environment(1));
  for (int round = 0; round < 40; ++round) {
    Pair pair(80);
    for (int i = 0; i < 400; ++i) {
      pair.step(random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(FreeList, TwoDirectionsLeaveTheMiddleInOnePiece) {
  FreeList space(kib(64), kUnit);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(space.allocate(kib(1), Placement::lowest));
    ASSERT_TRUE(space.allocate(kib(2), Placement::highest));
  }
  EXPECT_EQ(space.free_pieces(), 1u);
  EXPECT_EQ(space.largest_free(), kib(34));
}

TEST(FreeList, TakesTheTightestHoleAndKeepsTheLargeOne) {
  FreeList space(kib(100), kUnit);
  const Bytes a = *space.allocate(kib(10));
  ASSERT_TRUE(space.allocate(kib(1)));
  const Bytes b = *space.allocate(kib(4));
  ASSERT_TRUE(space.allocate(kib(1)));
  space.free(a);
  space.free(b);
  EXPECT_EQ(*space.allocate(kib(3)), b);
  EXPECT_EQ(*space.allocate(kib(5)), a);
}

TEST(FreeList, EmptyRequestsGetAnAddressOfTheirOwn) {
  FreeList space(Bytes(2 * kUnit), kUnit);
  EXPECT_EQ(*space.allocate(Bytes(0)), Bytes(0));
  EXPECT_EQ(*space.allocate(Bytes(0)), Bytes(kUnit));
  EXPECT_FALSE(space.allocate(Bytes(0)));
}

TEST(FreeList, HugeRequestsAreRefusedWithoutOverflow) {
  FreeList space(kUnboundedLane, kUnit);
  EXPECT_FALSE(space.allocate(Bytes(INT64_MAX)));
  EXPECT_FALSE(space.allocate_at(Bytes(kUnit), Bytes(INT64_MAX - 10)));
  EXPECT_EQ(space.free_bytes(), kUnboundedLane);
}

TEST(FreeListDeath, FreeingWhatIsNotTakenStopsTheProcess) {
  FreeList space(kib(1), kUnit);
  ASSERT_TRUE(space.allocate(Bytes(128)));
  EXPECT_DEATH(space.free(Bytes(64)), "offset 64 is not the start of a taken range");
}

}  // namespace
}  // namespace laneway::memory
