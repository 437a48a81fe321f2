// Shows that most_free_after is never less than what sliding and leaving images give, by
// doing both in random pools, and that it says no where no slide could help.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "lanes/pool/pool_gaps.h"
#include "lanes/pool/pool_map.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

constexpr int64_t kUnit = 64;
constexpr int kPools = 2000;

Bytes units(int64_t count) { return Bytes(count * kUnit); }

struct Pool {
  explicit Pool(int64_t size) : map(units(size), Bytes(), kUnit) {}

  void image(uint64_t job, int64_t at, int64_t size) {
    ASSERT_TRUE(map.claim_image(JobId(job), units(size), units(at), units(size)));
  }
  void region(int64_t at, int64_t size) {
    Region region;
    region.id = RegionId(regions.size() + 1);
    region.offset = units(at);
    region.size = units(size);
    if (map.claim_region(region)) regions.push_back(region);
  }
  Bytes most(const std::vector<Bytes>& gone = {}) const {
    std::vector<Range> sliding;
    for (const Region& region : regions) sliding.push_back(region.range());
    std::sort(sliding.begin(), sliding.end());
    std::vector<Range> gone_ranges;
    gone_ranges.reserve(gone.size());
    for (const Bytes at : gone) {
      gone_ranges.push_back({at.count(), map.ranges().size_of(at).count()});
    }
    return most_free_after(map.ranges(), sliding, gone_ranges);
  }
  Bytes after_slide() const {
    PoolMap trial = map;
    std::vector<Region> moved = regions;
    std::vector<Region*> all;
    all.reserve(moved.size());
    for (Region& region : moved) all.push_back(&region);
    trial.slide_up(std::move(all), nullptr);
    return trial.largest_free();
  }

  PoolMap map;
  std::vector<Region> regions;
};

// The bound as it is meant, range by range: what slides stays between two ranges that do not, or
// fills free bytes above.
Bytes most_by_all_ranges(const memory::FreeList& ranges, const std::vector<Range>& sliding,
                         const std::vector<Range>& gone) {
  const auto in = [](const std::vector<Range>& some, const Range& range) {
    return std::find(some.begin(), some.end(), range) != some.end();
  };
  Bytes most, free_above, free, slide;
  Bytes end = ranges.capacity();
  const auto end_stretch = [&] {
    most = std::max(most, free + std::min(slide, free_above));
    free_above += free;
    free = slide = Bytes();
  };
  for (auto range = ranges.taken().rbegin(); range != ranges.taken().rend(); ++range) {
    free += end - Bytes(range->first + range->second);
    end = Bytes(range->first);
    if (in(gone, *range)) {
      free += Bytes(range->second);
    } else if (in(sliding, *range)) {
      slide += Bytes(range->second);
    } else {
      end_stretch();
    }
  }
  free += end;
  end_stretch();
  return most;
}

TEST(PoolSlide, RegionsAtTheTopWithoutAGapAboveThemGiveNothing) {
  Pool pool(100);
  pool.image(1, 0, 10);   // [0, 10)
  pool.image(2, 30, 40);  // 20 free below, [70, 80) free above
  pool.region(80, 10);
  pool.region(90, 10);
  EXPECT_EQ(pool.most(), units(20));
  EXPECT_EQ(pool.after_slide(), units(20));
}

TEST(PoolSlide, ARegionInTheMiddleOfAStretchGivesBothItsSides) {
  Pool pool(100);
  pool.image(1, 0, 40);
  pool.region(60, 10);  // 20 free below it, 30 above
  EXPECT_EQ(pool.most(), units(50));
  EXPECT_EQ(pool.after_slide(), units(50));
}

TEST(PoolSlide, ARegionGoesUpOnlyAsFarAsThereIsRoom) {
  Pool pool(100);
  pool.image(1, 20, 70);  // 10 free above
  pool.region(5, 10);     // 5 free on both sides
  EXPECT_EQ(pool.most(), units(20)) << "it goes above the image";
  EXPECT_EQ(pool.after_slide(), units(20));
  Pool tight(100);
  tight.image(1, 20, 72);  // 8 free above: too few for it
  tight.region(5, 10);
  EXPECT_EQ(tight.after_slide(), units(10));
  EXPECT_EQ(tight.most(), units(18)) << "as if it could go in parts";
}

TEST(PoolSlide, ImagesThatGoCountAsFree) {
  Pool pool(100);
  pool.image(1, 0, 30);
  pool.image(2, 40, 10);
  pool.image(3, 60, 40);
  EXPECT_EQ(pool.most(), units(10));
  EXPECT_EQ(pool.most({units(40)}), units(30));
}

TEST(PoolSlide, ItIsNeverLessThanWhatASlideGives) {
  Random random(testing::seed_from_environment(611));
  int helped = 0;
  for (int i = 0; i < kPools; ++i) {
    const int64_t size = random.between(20, 400);
    Pool pool(size);
    const auto many = static_cast<uint64_t>(random.between(1, 30));
    for (uint64_t job = 1; job <= many; ++job) {
      const int64_t bytes = random.between(1, 20);
      const int64_t at = random.between(0, size);
      (void)pool.map.claim_image(JobId(job), units(bytes), units(at), units(bytes));
      pool.region(random.between(0, size), random.between(1, 12));
    }
    const Bytes after = pool.after_slide();
    ASSERT_GE(pool.most(), after) << "pool " << i;
    helped += after > pool.map.largest_free();
    // The same when some images have gone.
    Pool without = pool;
    std::vector<Bytes> gone;
    for (const PoolMap::ImageSize& image : pool.map.image_sizes()) {
      if (!random.chance(0.3)) continue;
      const memory::FreeList before = without.map.ranges();
      without.map.drop_image(image.job);
      for (const auto& [offset, bytes] : before.taken()) {
        if (!without.map.ranges().taken().contains(offset)) gone.emplace_back(offset);
      }
    }
    std::sort(gone.begin(), gone.end());
    ASSERT_GE(pool.most(gone), without.after_slide()) << "pool " << i;
  }
  EXPECT_GT(helped, kPools / 10) << "slides that help are what this is about";
}

TEST(PoolSlide, TheBoundIsWhatAllRangesTogetherSay) {
  Random random(testing::seed_from_environment(733));
  int without_slide = 0;
  for (int round = 0; round < kPools; ++round) {
    const int64_t size = random.between(60, 400);
    Pool pool(size);
    std::vector<Range> images;
    for (uint64_t id = 1; id <= 60; ++id) {
      Bytes at;
      if (pool.map.place_image(JobId(id), units(random.between(1, 9)), &at) != Room::done) break;
    }
    for (const PoolMap::ImageSize& image : std::vector(pool.map.image_sizes())) {
      if (random.chance(0.3)) pool.map.drop_image(image.job);
    }
    for (const Range& range : pool.map.ranges().taken()) images.push_back(range);
    for (int i = 0; i < 8; ++i) pool.region(random.between(0, size), random.between(1, 9));
    std::vector<Range> sliding, gone;
    for (const Region& region : pool.regions) sliding.push_back(region.range());
    std::sort(sliding.begin(), sliding.end());
    for (const Range& image : images) {
      if (random.chance(0.2)) gone.push_back(image);
    }
    const memory::FreeList& ranges = pool.map.ranges();
    ASSERT_EQ(most_free_after(ranges, sliding, gone), most_by_all_ranges(ranges, sliding, gone))
        << "round " << round;
    without_slide += most_free_around(ranges, gone) == most_free_after(ranges, sliding, gone);
  }
  EXPECT_LT(without_slide, kPools * 9 / 10);
}

}  // namespace
}  // namespace laneway::lanes
