// Shows that the scan finds the first element out of range, and only such, against a walk over all
// elements of random views, and that views of the same elements are equal.
#include "adaptor/checks/index_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/seed.h"

namespace laneway::adaptor {
namespace {

using lanes::DType;

struct View {
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
};

// Every element's place, by counting through all positions.
std::vector<int64_t> places_of(const View& view) {
  std::vector<int64_t> places = {view.offset};
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    std::vector<int64_t> more;
    for (const int64_t place : places) {
      for (int64_t i = 0; i < view.sizes[d]; ++i) more.push_back(place + i * view.strides[d]);
    }
    places = std::move(more);
  }
  std::sort(places.begin(), places.end());
  return places;
}

template <class Integer>
void compare_with_a_walk(DType dtype, std::mt19937_64& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::vector<Integer> numbers(512);
  for (Integer& number : numbers) number = static_cast<Integer>(pick(0, 9));
  View view;
  const auto dimensions = static_cast<size_t>(pick(0, 4));
  for (size_t d = 0; d < dimensions; ++d) {
    view.sizes.push_back(pick(pick(0, 9) == 0 ? 0 : 1, 4));
    view.strides.push_back(pick(0, 30));
  }
  view.offset = pick(0, 20);
  const std::vector<int64_t> places = places_of(view);
  for (int64_t wrong = pick(0, 3); wrong > 0; --wrong) {
    numbers[static_cast<size_t>(pick(0, 400))] =
        static_cast<Integer>(pick(0, 1) == 0 ? 100 : pick(-3, 12));
  }
  IndexRange range{pick(-3, 0), 0, {}};
  range.count = static_cast<uint64_t>(pick(0, 9) == 0 ? 0 : pick(9, 11) - range.low);
  if (pick(0, 1) == 0) range.also = 100;

  const auto outside = [&](int64_t place) {
    const auto value = static_cast<int64_t>(numbers[static_cast<size_t>(place)]);
    const bool in = value >= range.low && value < range.low + static_cast<int64_t>(range.count);
    return !in && value != range.also;
  };
  const auto expected = std::find_if(places.begin(), places.end(), outside);
  const IndexElements elements(dtype, view.offset, view.sizes, view.strides);
  const auto found = elements.first_outside(numbers.data(), range);
  ASSERT_EQ(found.has_value(), expected != places.end());
  if (!found) return;
  EXPECT_TRUE(std::find(places.begin(), places.end(), found->place) != places.end());
  EXPECT_TRUE(outside(found->place));
  EXPECT_EQ(found->value, static_cast<int64_t>(numbers[static_cast<size_t>(found->place)]));
}

TEST(IndexScan, FindsWhatAWalkOverAllElementsFinds) {
  const uint64_t seed = testing::seed_from_environment(20);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    compare_with_a_walk<int64_t>(DType::int64, random);
    compare_with_a_walk<int32_t>(DType::int32, random);
    compare_with_a_walk<int16_t>(DType::int16, random);
    compare_with_a_walk<int8_t>(DType::int8, random);
    compare_with_a_walk<uint8_t>(DType::uint8, random);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST(IndexScan, SeesTheEndsOfTheIntegers) {
  const IndexElements all(DType::int64, 0, {3}, {1});
  for (const int64_t wrong :
       {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), int64_t{-1},
        int64_t{1} << 40, int64_t{10}}) {
    const int64_t numbers[] = {0, wrong, 9};
    const auto found = all.first_outside(numbers, {0, 10, {}});
    ASSERT_TRUE(found.has_value()) << wrong;
    EXPECT_EQ(found->value, wrong);
    EXPECT_EQ(found->place, 1);
    EXPECT_FALSE(all.first_outside(numbers, {0, 10, wrong}).has_value()) << wrong;
  }
}

TEST(IndexScan, ReadsBytesThatAreNotAligned) {
  alignas(8) std::byte bytes[8 * 5 + 1];
  const int64_t numbers[] = {1, 2, 3, 4, 77};
  std::memcpy(bytes + 1, numbers, sizeof(numbers));
  const IndexElements all(DType::int64, 0, {5}, {1});
  const auto found = all.first_outside(bytes + 1, {0, 10, {}});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->place, 4);
}

TEST(IndexScan, TakesTheSameElementsInAnotherOrderForTheSame) {
  const IndexElements plain(DType::int64, 2, {4, 3}, {3, 1});
  EXPECT_EQ(plain, IndexElements(DType::int64, 2, {3, 4}, {1, 3}));
  EXPECT_EQ(plain, IndexElements(DType::int64, 2, {12}, {1}));
  EXPECT_EQ(plain, IndexElements(DType::int64, 2, {5, 1, 12}, {0, 7, 1}));
  EXPECT_FALSE(plain == IndexElements(DType::int64, 3, {12}, {1}));
  EXPECT_FALSE(plain == IndexElements(DType::int32, 2, {12}, {1}));
  EXPECT_FALSE(plain == IndexElements(DType::int64, 2, {4, 3}, {4, 1}));
}

}  // namespace
}  // namespace laneway::adaptor
