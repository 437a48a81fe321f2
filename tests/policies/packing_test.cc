// Packing reads like its rule: by arrival, past those that find no room; in a lane, and in leaving,
// as fifo.
#include "policies/packing.h"

#include <gtest/gtest.h>

#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

constexpr TimePoint kNow = TimePoint(seconds(1).ns());

TEST(Packing, TheEarliestThatFindsRoomIsAdmitted) {
  Scene scene;
  Packing packing;
  JobView& first = scene.waiting(1);
  JobView& second = scene.waiting(2);
  JobView& third = scene.waiting(3);
  EXPECT_EQ(packing.admit(kNow, scene.view).job, JobId(1));
  first.tried_version = scene.view.version();
  EXPECT_EQ(packing.admit(kNow, scene.view).job, JobId(2)) << "the first one found no room";
  second.tried_version = third.tried_version = scene.view.version();
  EXPECT_FALSE(packing.admit(kNow, scene.view).job.valid());
  scene.view.forget_tries();
  EXPECT_EQ(packing.admit(kNow, scene.view).job, JobId(1)) << "something has changed";
}

TEST(Packing, InALaneTheEarliestRuns) {
  Scene scene;
  Packing packing;
  for (uint64_t id = 1; id <= 2; ++id) scene.in_lane(id, 1, /*ready=*/true);
  EXPECT_EQ(scene.picked(packing), JobId(1));
}

}  // namespace
}  // namespace laneway::policies
