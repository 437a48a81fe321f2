// Who leaves the pool: what was not used for longest, for the transfers that leaving costs.
#include "policies/least_useful.h"

#include <gtest/gtest.h>

#include <vector>

namespace laneway::policies {
namespace {

JobView job(uint64_t id, int64_t used_at, int64_t placed_at = 0) {
  JobView view;
  view.id = JobId(id);
  view.arrival = view.queue = id;
  view.used_at = TimePoint(used_at);
  view.placed_at = TimePoint(placed_at);
  return view;
}

TEST(LeastUseful, IsWhatWasNotUsedForLongest) {
  const JobView early = job(1, 10);
  const JobView late = job(2, 90);
  const std::vector<EvictCandidate> both = {{&late, true, true}, {&early, true, true}};
  EXPECT_EQ(least_useful(TimePoint(100), both), JobId(1));
}

TEST(LeastUseful, CountsWhatLeavingCosts) {
  const JobView dirty = job(1, 40);
  const JobView clean = job(2, 60);
  const std::vector<EvictCandidate> both = {{&dirty, true, false}, {&clean, true, true}};
  EXPECT_EQ(least_useful(TimePoint(100), both), JobId(2)) << "80 for two copies against 60 for one";
  EXPECT_EQ(least_useful(TimePoint(70), both), JobId(1)) << "20 twice against 30";
}

TEST(LeastUseful, TakesTurnsAmongThoseWithWorkWhenNobodyIsIdle) {
  const JobView fresh = job(1, 10, 80);
  const JobView old = job(2, 90, 20);
  const JobView idle = job(3, 99, 90);
  std::vector<EvictCandidate> all = {
      {&fresh, false, true}, {&old, false, true}, {&idle, true, true}};
  EXPECT_EQ(least_useful(TimePoint(100), all), JobId(3));
  all.pop_back();
  EXPECT_EQ(least_useful(TimePoint(100), all), JobId(2));
}

}  // namespace
}  // namespace laneway::policies
