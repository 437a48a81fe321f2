// Shows that a range that is named (a report says where an image or region lies) is taken exactly
// when it is aligned, inside the pool and free, and that ledger and free list stay one: random
// claims, placements, moves and releases, numbers of nonsense among them, against a list of ranges
// that is searched afresh each time. And that a trial that is taken back, with others in it, leaves
// nothing behind, whatever it did.
#include "lanes/pool/pool_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
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

template <class Container>
auto any_of(Container& some, Random& random) {
  return std::next(some.begin(), static_cast<ptrdiff_t>(random.below(some.size())));
}

class Pair {
 public:
  Pair(int64_t units, int64_t reserve_units)
      : capacity_(units * kUnit),
        reserve_(reserve_units * kUnit),
        real_(Bytes(capacity_), Bytes(reserve_), kUnit) {}

  void step(Random& random) {
    switch (random.below(11)) {
      case 0: claim_image(random); break;
      case 1: claim_region(random); break;
      case 2: place_image(random); break;
      case 3: drop_image(random); break;
      case 4: close_region(random); break;
      case 5: begin_move(random); break;
      case 6: end_move(random); break;
      case 7: resize_region(random); break;
      case 8: slide(random); break;
      case 9: keep_prefix(random); break;
      case 10: drop_prefix(random); break;
    }
    compare();
  }

  // Steps, and trials in between, and all of it taken back.
  void try_out(Random& random, int depth) {
    PoolMap before = real_;
    const Naive naive = naive_;
    if (depth == 0) real_.begin_trial();
    const PoolMap::Mark mark = real_.mark();
    for (int i = 0; i < 12 && !::testing::Test::HasFatalFailure(); ++i) {
      depth < 3 && random.chance(0.2) ? try_out(random, depth + 1) : step(random);
    }
    real_.take_back(mark);
    if (depth == 0) real_.end_trial();
    naive_ = naive;
    compare();
    ASSERT_EQ(real_.ranges().free_pieces(), before.ranges().free_pieces());
    ASSERT_EQ(real_.ranges().free_bytes(), before.ranges().free_bytes());
    ASSERT_EQ(real_.largest_free(), before.largest_free());
    ASSERT_EQ(real_.image_sizes(), before.image_sizes());
    for (const auto& [region, range] : naive_.regions) {
      ASSERT_EQ(real_.ledger().find(region.claim)->held, Bytes(range.size));
    }
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
    for_each_range([&](const NaiveRange& range) { sum += range.size; });
    return sum;
  }
  template <class Do>
  void for_each_range(const Do& with) const {
    for (const auto* some : {&naive_.images, &naive_.moves, &naive_.prefixes}) {
      for (const auto& [id, range] : *some) with(range);
    }
    for (const auto& [region, range] : naive_.regions) with(range);
  }
  bool is_free(int64_t offset, int64_t size) const {
    if (offset < 0 || size <= 0 || size > capacity_ || offset > capacity_ - size) return false;
    if (offset % kUnit != 0 || size % kUnit != 0) return false;
    if (taken() + reserve_ + size > capacity_) return false;
    bool free = true;
    for_each_range([&](const NaiveRange& range) {
      free = free && (range.offset + range.size <= offset || offset + size <= range.offset);
    });
    return free;
  }

  void claim_image(Random& random) {
    const uint64_t id = random.below(20) + 1;
    const int64_t offset = any_number(random);
    const int64_t range = any_size(random);
    const bool odd = range < kUnit || random.chance(0.1);
    const int64_t size = odd ? any_number(random) : range - random.between(0, kUnit - 1);
    const bool possible = size >= 0 && size <= range && range <= capacity_;
    const bool same = possible && std::max<int64_t>((size + kUnit - 1) / kUnit, 1) * kUnit == range;
    const bool expected = same && naive_.images.count(id) == 0 && is_free(offset, range);
    ASSERT_EQ(real_.claim_image(JobId(id), Bytes(size), Bytes(offset), Bytes(range)), expected)
        << id << " " << size << " at " << offset << " of " << range;
    if (expected) naive_.images[id] = {offset, range};
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
    naive_.regions.emplace_back(region, range);
  }
  void place_image(Random& random) {
    const uint64_t id = random.below(20) + 1;
    if (naive_.images.count(id) > 0) return;
    const int64_t size = random.between(1, 12) * kUnit;
    Bytes offset;
    if (real_.place_image(JobId(id), Bytes(size), &offset) != Room::done) return;
    ASSERT_TRUE(is_free(offset.count(), size));
    naive_.images[id] = {offset.count(), size};
  }
  void drop_image(Random& random) {
    if (naive_.images.empty()) return;
    const auto image = any_of(naive_.images, random);
    real_.drop_image(JobId(image->first));
    naive_.moves.erase(image->first);
    naive_.images.erase(image);
  }
  void begin_move(Random& random) {
    if (naive_.images.empty()) return;
    const auto& [id, range] = *any_of(naive_.images, random);
    if (naive_.moves.count(id) > 0) return;
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
    naive_.moves[id] = {place->count(), range.size};
  }
  void end_move(Random& random) {
    if (naive_.moves.empty()) return;
    const auto move = any_of(naive_.moves, random);
    const bool moved = random.chance(0.5);
    real_.end_move(JobId(move->first), moved);
    if (moved) naive_.images[move->first] = move->second;
    naive_.moves.erase(move);
  }
  void close_region(Random& random) {
    if (naive_.regions.empty()) return;
    const auto region = any_of(naive_.regions, random);
    real_.close_region(region->first);
    naive_.regions.erase(region);
  }
  void resize_region(Random& random) {
    if (naive_.regions.empty()) return;
    const size_t which = random.below(naive_.regions.size());
    auto [region, range] = naive_.regions[which];
    naive_.regions.erase(naive_.regions.begin() + static_cast<ptrdiff_t>(which));
    const int64_t size = random.between(1, 12) * kUnit;
    if (real_.resize_region(region, Bytes(size)) == Room::done) {
      range = {region.offset.count(), size};
      ASSERT_TRUE(is_free(range.offset, range.size));
    }
    naive_.regions.emplace_back(region, range);
  }
  void slide(Random& random) {
    std::vector<Region*> all;
    for (auto& [region, range] : naive_.regions) all.push_back(&region);
    Region* lowest = nullptr;
    if (!all.empty() && random.chance(0.5)) {
      lowest = all.back();
      all.pop_back();
    }
    // With more than there can be it only looks.
    const bool slides = random.chance(0.7);
    ASSERT_EQ(real_.slide_up(all, lowest, slides ? Bytes() : Bytes(capacity_ + kUnit)), slides);
    const auto before = std::exchange(naive_.regions, {});
    for (const auto& [region, range] : before) {
      const NaiveRange now{region.offset.count(), range.size};
      ASSERT_TRUE(is_free(now.offset, now.size));
      ASSERT_TRUE(slides || now.offset == range.offset);
      naive_.regions.emplace_back(region, now);
    }
  }
  void keep_prefix(Random& random) {
    if (naive_.images.empty()) return;
    const auto image = any_of(naive_.images, random);
    const auto [id, range] = *image;
    if (naive_.prefixes.count(id) > 0) return;
    const int64_t size = random.between(1, range.size / kUnit) * kUnit;
    real_.keep_prefix(JobId(id), Bytes(size));
    naive_.images.erase(image);
    naive_.moves.erase(id);
    naive_.prefixes[id] = {range.offset, size};
  }
  void drop_prefix(Random& random) {
    const uint64_t id = random.below(20) + 1;
    ASSERT_EQ(real_.drop_prefix(JobId(id)), naive_.prefixes.erase(id) > 0);
  }
  void compare() {
    ASSERT_EQ(real_.claimed().count(), taken() + reserve_);
    std::map<int64_t, int64_t> ranges;
    for_each_range([&](const NaiveRange& range) { ranges[range.offset] = range.size; });
    const auto& taken = real_.ranges().taken();
    ASSERT_TRUE(std::equal(taken.begin(), taken.end(), ranges.begin(), ranges.end(),
                           [](const auto& one, const auto& other) {
                             return one.first == other.first && one.second == other.second;
                           }));
    // Few or many changes lie between two questions.
    ++compared_;
    if (compared_ % (compared_ % 1'000 < 500 ? 3 : 90) != 0) return;
    std::vector<PoolMap::ImageSize> sizes;
    for (const auto& [id, range] : naive_.images) sizes.push_back({Bytes(range.size), JobId(id)});
    std::sort(sizes.begin(), sizes.end());
    ASSERT_EQ(real_.image_sizes(), sizes);
  }

  struct Naive {
    std::map<uint64_t, NaiveRange> images;
    std::map<uint64_t, NaiveRange> moves;  // where images go
    std::map<uint64_t, NaiveRange> prefixes;
    std::vector<std::pair<Region, NaiveRange>> regions;
  };
  int64_t capacity_;
  int64_t reserve_;
  PoolMap real_;
  Naive naive_;
  uint64_t last_region_ = 0;
  uint64_t compared_ = 0;
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

TEST(PoolMap, ATrialThatIsTakenBackLeavesNothingBehind) {
  Random random(testing::seed_from_environment(17));
  for (int round = 0; round < 60; ++round) {
    Pair pair(random.between(20, 90), 0);
    for (int i = 0; i < 40; ++i) {
      random.chance(0.5) ? pair.step(random) : pair.try_out(random, 0);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(PoolMap, WhatATrialKeepsStays) {
  PoolMap pool(Bytes(kUnit * 100), Bytes(0), kUnit);
  Bytes offset;
  pool.begin_trial();
  ASSERT_EQ(pool.place_image(JobId(1), Bytes(640), &offset), Room::done);
  const PoolMap::Mark mark = pool.mark();
  ASSERT_EQ(pool.place_image(JobId(2), Bytes(640), &offset), Room::done);
  pool.take_back(mark);
  pool.end_trial();
  EXPECT_EQ(pool.claimed(), Bytes(640));
  pool.drop_image(JobId(1));
  EXPECT_EQ(pool.largest_free(), Bytes(kUnit * 100));
}

TEST(PoolMap, SizesPastEveryPoolDoNotOverflow) {
  PoolMap pool(Bytes(kUnit * 100), Bytes(0), kUnit);
  EXPECT_GT(pool.rounded(Bytes(INT64_MAX)), Bytes(INT64_MAX / 2));
  EXPECT_EQ(pool.rounded(Bytes(INT64_MIN)), Bytes(kUnit));
  EXPECT_FALSE(pool.could_ever_fit(Bytes(INT64_MAX), Bytes(INT64_MAX)));
}

}  // namespace
}  // namespace laneway::lanes
