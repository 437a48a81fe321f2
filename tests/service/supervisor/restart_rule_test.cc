// When a process that died is started again: at once, then later and later, not for ever.
#include "service/supervisor/restart_rule.h"

#include <gtest/gtest.h>

namespace laneway::service {
namespace {

TEST(RestartRule, TheFirstDeathStartsAtOnceAndLaterOnesWaitTwiceAsLong) {
  RestartRule rule({.window = seconds(60),
                    .first_delay = milliseconds(100),
                    .longest_delay = milliseconds(500),
                    .deaths = 10});
  const TimePoint now(seconds(1000).ns());
  EXPECT_EQ(rule.died(now) - now, milliseconds(0));
  EXPECT_EQ(rule.died(now) - now, milliseconds(100));
  EXPECT_EQ(rule.died(now) - now, milliseconds(200));
  EXPECT_EQ(rule.died(now) - now, milliseconds(400));
  EXPECT_EQ(rule.died(now) - now, milliseconds(500));
  EXPECT_EQ(rule.died(now) - now, milliseconds(500));
}

TEST(RestartRule, SoManyDeathsWithinTheWindowAreTheEnd) {
  RestartRule rule({.window = seconds(60), .deaths = 3});
  EXPECT_NE(rule.died(TimePoint(0)), TimePoint::never());
  EXPECT_NE(rule.died(TimePoint(seconds(30).ns())), TimePoint::never());
  EXPECT_EQ(rule.died(TimePoint(seconds(60).ns())), TimePoint::never());
}

TEST(RestartRule, DeathsBeforeTheWindowAreForgotten) {
  RestartRule rule({.window = seconds(60), .deaths = 3});
  TimePoint now;
  for (int death = 0; death < 20; ++death) {
    now = now + seconds(31);  // never three within 60 s
    EXPECT_NE(rule.died(now), TimePoint::never());
  }
  now = now + seconds(61);
  EXPECT_EQ(rule.died(now), now);
}

TEST(RestartRule, DeathsBeforeWorkThatWasDoneAreForgotten) {
  RestartRule rule({.window = seconds(60), .deaths = 3});
  const TimePoint now(seconds(1000).ns());
  for (uint64_t done = 1; done < 20; ++done) {
    EXPECT_EQ(rule.died(now, done), now) << "at once, as the first";
    EXPECT_NE(rule.died(now, done), TimePoint::never());
  }
  EXPECT_EQ(rule.died(now, 19), TimePoint::never());
}

TEST(RestartRule, AProcessWithoutWhichOthersWorkIsNotGivenUpAndIsStartedAsLateAsElse) {
  RestartRule rule({.window = seconds(60),
                    .first_delay = milliseconds(100),
                    .longest_delay = milliseconds(500),
                    .deaths = 3},
                   RestartRule::Work::others);
  const TimePoint now(seconds(1000).ns());
  EXPECT_EQ(rule.died(now, 1) - now, milliseconds(0));
  EXPECT_EQ(rule.died(now, 2) - now, milliseconds(100));
  for (uint64_t done = 3; done < 20; ++done) {
    EXPECT_LE(rule.died(now, done) - now, milliseconds(500)) << done;
  }
  EXPECT_EQ(rule.died(now, 19) - now, milliseconds(500));
  EXPECT_EQ(rule.died(now, 19), TimePoint::never());
}

}  // namespace
}  // namespace laneway::service
