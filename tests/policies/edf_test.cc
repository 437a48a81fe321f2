// Edf reads like its rule: the earliest deadline first, those without one last; and what it says is
// missed is missed.
#include "policies/edf.h"

#include <gtest/gtest.h>

#include "policies/registry.h"
#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

JobView& due(JobView& job, int64_t offered_s, int64_t deadline_s) {
  job.offered_at = TimePoint(seconds(offered_s).ns());
  job.options.deadline = seconds(deadline_s);
  return job;
}

TEST(Edf, TheEarliestDeadlineGoesFirst) {
  Scene scene;
  scene.in_lane(1, 1, /*ready=*/true);
  due(scene.in_lane(2, 1, /*ready=*/true), 0, 100);
  due(scene.in_lane(3, 1, /*ready=*/true), 40, 50);  // at 90 s
  const auto policy = make_policy("edf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(3));
  scene.waiting(4);
  due(scene.waiting(5), 0, 1000);
  EXPECT_EQ(policy->admit(TimePoint(), scene.view).job, JobId(5));
}

TEST(Edf, SaysByHowMuchADeadlineIsMissed) {
  Scene scene;
  JobView& job = due(scene.waiting(1), 0, 10);
  const auto policy = make_policy("edf").value();
  const auto late_at = [&](int64_t now_s) {
    return policy->late(TimePoint(seconds(now_s).ns()), scene.view, job);
  };
  EXPECT_EQ(late_at(9), std::nullopt) << "how long it takes is not known";
  EXPECT_EQ(late_at(12), seconds(2)) << "but that is certain";
  Scene::set_remaining(job, 100, milliseconds(120));
  EXPECT_EQ(late_at(0), seconds(2)) << "12 s of work, from its offer on";
  job.options.deadline = {};
  EXPECT_EQ(late_at(100), std::nullopt);
}

TEST(Edf, InALaneEarlierDeadlinesAreDoneBefore) {
  Scene scene;
  JobView& job = due(scene.in_lane(1, 1, /*ready=*/true), 0, 10);
  Scene::set_remaining(job, 6, seconds(1));
  Scene::set_remaining(due(scene.in_lane(2, 1, /*ready=*/true), 0, 9), 7, seconds(1));
  Scene::set_remaining(due(scene.in_lane(3, 1, /*ready=*/true), 0, 11), 7, seconds(1));
  const auto policy = make_policy("edf").value();
  EXPECT_EQ(policy->late(TimePoint(), scene.view, job), seconds(3)) << "6 + 7 s of work";
}

}  // namespace
}  // namespace laneway::policies
