// A job's pace is the time by the clock over its iterations, between looks that are a window apart;
// what cannot be a pace (one look, none done, a count that fell) is unknown.
#include "service/broker/job_pace.h"

#include <gtest/gtest.h>

#include "service/broker/limits.h"

namespace laneway::service {
namespace {

constexpr Duration kWindow = limits::kPaceWindow;

TEST(JobPace, IsTheTimeOverTheIterationsOfAWindow) {
  JobPace pace;
  TimePoint now;
  pace.saw(now, 40);
  EXPECT_EQ(pace.per_iteration(), Duration()) << "one look says nothing";
  now = now + kWindow;
  pace.saw(now, 140);
  EXPECT_EQ(pace.per_iteration(), Duration(kWindow.ns() / 100));
  now = now + kWindow * 3;
  pace.saw(now, 200);
  EXPECT_EQ(pace.per_iteration(), Duration(3 * kWindow.ns() / 60)) << "since the last look";
}

TEST(JobPace, LooksWithinTheWindowChangeNothing) {
  JobPace pace;
  TimePoint now;
  pace.saw(now, 0);
  pace.saw(now + kWindow + Duration(-1), 1);
  EXPECT_EQ(pace.per_iteration(), Duration());
  pace.saw(now + kWindow, 10);
  EXPECT_EQ(pace.per_iteration(), Duration(kWindow.ns() / 10)) << "from the first look on";
}

TEST(JobPace, AJobThatStandsStillHasNone) {
  JobPace pace;
  TimePoint now;
  pace.saw(now, 0);
  pace.saw(now + kWindow, 10);
  pace.saw(now + kWindow * 2, 10);
  EXPECT_EQ(pace.per_iteration(), Duration());
}

TEST(JobPace, ACountThatFellBeginsAnew) {
  JobPace pace;
  TimePoint now;
  pace.saw(now, 100);
  pace.saw(now + kWindow, 50);
  pace.saw(now + kWindow * 2, 54);
  EXPECT_EQ(pace.per_iteration(), Duration(kWindow.ns() / 4));
}

}  // namespace
}  // namespace laneway::service
