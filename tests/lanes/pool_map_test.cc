// Shows that a range that is named (a report says where an image or region lies) is taken exactly
// when it is aligned, inside the pool and free, and that ledger and free list stay one: random
// claims, placements, moves and releases, numbers of nonsense among them, against a list of ranges
// that is searched afresh each time.
#include "lanes/pool_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

constexpr int64_t kUnit = 64;

struct NaiveRange {
  int64_t offset;
  int64_t size;
};

class Pair {
 public:
  Pair(int64_t units, int64_t reserve_units)
      : capacity_(units * kUnit),
        reserve_(reserve_units * kUnit),
        real_(Bytes(capacity_), Bytes(reserve_), kUnit) {}

  void step(Random& random) {
    switch (random.below(7)) {
      case 0: claim_image(random); break;
      case 1: claim_region(random); break;
      case 2: place_image(random); break;
      case 3: drop_image(random); break;
      case 4: close_region(random); break;
      case 5: begin_move(random); break;
      case 6: end_move(random); break;
    }
    compare();
  }

 private:
  // Mostly what could be right, now and then what no pool has.
  int64_t any_number(Random& random) const {
    if (random.chance(0.05)) return INT64_MAX - static_cast<int64_t>(random.below(100));
    if (random.chance(0.05)) return INT64_MIN + static_cast<int64_t>(random.below(100));
    const int64_t number = random.between(-2, capacity_ / kUnit + 2) * kUnit;
    return random.chance(0.1) ? number + random.between(-40, 40) : number;
  }
  int64_t any_size(Random& random) const {
    return random.chance(0.1) ? any_number(random) : random.between(1, 12) * kUnit;
  }
  int64_t taken() const {
    int64_t sum = 0;
    for (const auto& [id, range] : images_) sum += range.size;
    for (const auto& [id, range] : moves_) sum += range.size;
    for (const auto& [region, range] : regions_) sum += range.size;
    return sum;
  }
  bool is_free(int64_t offset, int64_t size) const {
    if (offset < 0 || size <= 0 || size > capacity_ || offset > capacity_ - size) return false;
    if (offset % kUnit != 0 || size % kUnit != 0) return false;
    if (taken() + reserve_ + size > capacity_) return false;
    const auto apart = [offset, size](const NaiveRange& range) {
      return range.offset + range.size <= offset || offset + size <= range.offset;
    };
    for (const auto& [id, range] : images_) {
      if (!apart(range)) return false;
    }
    for (const auto& [id, range] : moves_) {
      if (!apart(range)) return false;
    }
    for (const auto& [region, range] : regions_) {
      if (!apart(range)) return false;
    }
    return true;
  }

  void claim_image(Random& random) {
    const uint64_t id = random.below(20) + 1;
    const int64_t offset = any_number(random);
    const int64_t range = any_size(random);
    const bool odd = range < kUnit || random.chance(0.1);
    const int64_t size = odd ? any_number(random) : range - random.between(0, kUnit - 1);
    const bool possible = size >= 0 && size <= range && range <= capacity_;
    const bool same = possible && std::max<int64_t>((size + kUnit - 1) / kUnit, 1) * kUnit == range;
    const bool expected = same && images_.count(id) == 0 && is_free(offset, range);
    ASSERT_EQ(real_.claim_image(JobId(id), Bytes(size), Bytes(offset), Bytes(range)), expected)
        << id << " " << size << " at " << offset << " of " << range;
    if (expected) images_[id] = {offset, range};
  }
  void claim_region(Random& random) {
    Region region;
    region.id = RegionId(++last_region_);
    region.offset = Bytes(any_number(random));
    region.size = Bytes(any_size(random));
    const bool expected = is_free(region.offset.count(), region.size.count());
    ASSERT_EQ(real_.claim_region(region), expected);
    ASSERT_EQ(region.claim.valid(), expected);
    if (!expected) return;
    const NaiveRange range{region.offset.count(), region.size.count()};
    regions_.emplace_back(region, range);
  }
  void place_image(Random& random) {
    const uint64_t id = random.below(20) + 1;
    if (images_.count(id) > 0) return;
    const int64_t size = random.between(1, 12) * kUnit;
    Bytes offset;
    if (real_.place_image(JobId(id), Bytes(size), &offset) != Room::done) return;
    ASSERT_TRUE(is_free(offset.count(), size));
    images_[id] = {offset.count(), size};
  }
  void drop_image(Random& random) {
    if (images_.empty()) return;
    const auto image = std::next(images_.begin(), random.below(images_.size()));
    real_.drop_image(JobId(image->first));
    moves_.erase(image->first);
    images_.erase(image);
  }
  void begin_move(Random& random) {
    if (images_.empty()) return;
    const auto& [id, range] = *std::next(images_.begin(), random.below(images_.size()));
    if (moves_.count(id) > 0) return;
    using To = PoolMap::MoveTo;
    const To to = std::array{To::lowest, To::highest, To::lower}.at(random.below(3));
    // Searched afresh: the places that are free, from the end that is meant.
    std::optional<int64_t> expected;
    for (int64_t at = 0; at + range.size <= capacity_; at += kUnit) {
      if (!is_free(at, range.size) || (to == To::lower && at > range.offset)) continue;
      if (!expected || to == To::highest) expected = at;
    }
    const std::optional<Bytes> place = real_.begin_move(JobId(id), to);
    ASSERT_EQ(place.has_value(), expected.has_value());
    if (!place) return;
    ASSERT_EQ(place->count(), *expected);
    moves_[id] = {place->count(), range.size};
  }
  void end_move(Random& random) {
    if (moves_.empty()) return;
    const auto move = std::next(moves_.begin(), random.below(moves_.size()));
    const bool moved = random.chance(0.5);
    real_.end_move(JobId(move->first), moved);
    if (moved) images_[move->first] = move->second;
    moves_.erase(move);
  }
  void close_region(Random& random) {
    if (regions_.empty()) return;
    const auto region = regions_.begin() + static_cast<ptrdiff_t>(random.below(regions_.size()));
    real_.close_region(region->first);
    regions_.erase(region);
  }
  void compare() const {
    ASSERT_EQ(real_.claimed().count(), taken() + reserve_);
    std::map<int64_t, int64_t> ranges;
    for (const auto& [id, range] : images_) ranges[range.offset] = range.size;
    for (const auto& [id, range] : moves_) ranges[range.offset] = range.size;
    for (const auto& [region, range] : regions_) ranges[range.offset] = range.size;
    const auto& taken = real_.ranges().taken();
    ASSERT_TRUE(std::equal(taken.begin(), taken.end(), ranges.begin(), ranges.end(),
                           [](const auto& one, const auto& other) {
                             return one.first == other.first && one.second == other.second;
                           }));
  }

  int64_t capacity_;
  int64_t reserve_;
  PoolMap real_;
  std::map<uint64_t, NaiveRange> images_;
  std::map<uint64_t, NaiveRange> moves_;  // where images go
  std::vector<std::pair<Region, NaiveRange>> regions_;
  uint64_t last_region_ = 0;
};

TEST(PoolMap, TakesNamedRangesExactlyWhenTheyAreFree) {
  Random random(testing::seed_from_environment(3));
  for (int round = 0; round < 60; ++round) {
    const int64_t units = random.between(20, 90);
    Pair pair(units, random.chance(0.5) ? 0 : random.between(1, units / 4));
    for (int i = 0; i < 300; ++i) {
      pair.step(random);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(PoolMap, SizesPastEveryPoolDoNotOverflow) {
  PoolMap pool(Bytes(64 * 100), Bytes(0), kUnit);
  EXPECT_GT(pool.rounded(Bytes(INT64_MAX)), Bytes(INT64_MAX / 2));
  EXPECT_EQ(pool.rounded(Bytes(INT64_MIN)), Bytes(kUnit));
  EXPECT_FALSE(pool.could_ever_fit(Bytes(INT64_MAX), Bytes(INT64_MAX)));
}

}  // namespace
}  // namespace laneway::lanes
