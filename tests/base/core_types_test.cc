// Shows the small value types: ids that do not mix, time that only adds up, a clock that stands
// still, chance that repeats, and log levels by name.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <type_traits>
#include <unordered_set>

#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway {
namespace {

static_assert(!std::is_convertible_v<JobId, LaneId>);
static_assert(!std::is_convertible_v<uint64_t, JobId>);
static_assert(!std::is_constructible_v<JobId, LaneId>);

TEST(Ids, AreValidFromOneOn) {
  EXPECT_FALSE(JobId().valid());
  IdSource<JobId> source;
  EXPECT_EQ(source.next(), JobId(1));
  EXPECT_EQ(source.next(), JobId(2));
  std::unordered_set<JobId> jobs = {JobId(1), JobId(2), JobId(1)};
  EXPECT_EQ(jobs.size(), 2u);
  EXPECT_LT(JobId(1), JobId(2));
}

TEST(Time, AddsUp) {
  constexpr TimePoint start(1000);
  static_assert(start + microseconds(2) == TimePoint(3000));
  static_assert(start + seconds(1) - start == milliseconds(1000));
  static_assert(TimePoint::never() > start);
  EXPECT_DOUBLE_EQ(milliseconds(1500).seconds(), 1.5);
}

TEST(Clock, TheManualOneMovesOnlyWhenTold) {
  ManualClock clock;
  EXPECT_EQ(clock.now(), TimePoint(0));
  clock.advance(seconds(3));
  EXPECT_EQ(clock.now(), TimePoint(0) + seconds(3));
}

TEST(Clock, TheSteadyOneNeverGoesBack) {
  const SteadyClock clock;
  TimePoint last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = clock.now();
    EXPECT_GE(now, last);
    last = now;
  }
}

// The first outputs of splitmix64 with seed 1234567, from its authors' reference program.
TEST(Random, IsThePublishedGenerator) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
  EXPECT_EQ(random.next(), 9817491932198370423ULL);
}

TEST(Random, StaysInItsBoundsAndReachesThem) {
  Random random(testing::seed_from_environment(41));
  std::array<int, 7> seen{};
  for (int i = 0; i < 10'000; ++i) {
    const int64_t number = random.between(-3, 3);
    ASSERT_GE(number, -3);
    ASSERT_LE(number, 3);
    ++seen[static_cast<size_t>(number + 3)];
    const double unit = random.unit();
    ASSERT_GE(unit, 0.0);
    ASSERT_LT(unit, 1.0);
  }
  for (const int count : seen) EXPECT_GT(count, 1000) << "a seventh of 10,000 is 1,429";
}

TEST(Log, LevelsAreReadByName) {
  EXPECT_EQ(parse_log_level("warning").value(), LogLevel::warning);
  EXPECT_EQ(parse_log_level("off").value(), LogLevel::off);
  const auto bad = parse_log_level("loud");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("'loud'"), std::string::npos);
}

TEST(Log, OnlyLinesOfTheLevelReachTheFile) {
  EXPECT_FALSE(set_log_file("/dev/null/laneway.log").ok());
  const auto path = std::filesystem::path(::testing::TempDir()) / "laneway_log_test.log";
  std::filesystem::remove(path);
  ASSERT_TRUE(set_log_file(path.string()).ok());
  set_log_level(LogLevel::info);
  log_info("first {} line");
  log_debug("hidden");
  set_log_level(LogLevel::error);
  log_warning("hidden too");
  log_error("last");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("info first {} line"), std::string::npos);
  EXPECT_NE(text.str().find("error last"), std::string::npos);
  EXPECT_EQ(text.str().find("hidden"), std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace laneway
