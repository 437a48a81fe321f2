// Scenes of notes that the simulation does not miss (tests/simulation/changes_test.cc): with them
// the core does what it should at once, and without them it does not.
#include "lanes/state/changes.h"

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class ChangesTest : public SchedulerTest {
 protected:
  // A policy that lets smaller ones pass comes while one waits behind a larger one.
  size_t admitted_by_another_policy(bool lost) {
    make(100, 2, 0, policies::make_policy("fifo").value());
    start(1, 60, 30);
    offer(2, 60, 30);
    offer(3, 5, 5);
    if (lost) scheduler_->lose(Changed::order);
    scheduler_->set_policy(policies::make_policy("fifo:admit=fit").value());
    return of<AdmitJob>(send(TimerFired{})).size();
  }
  // A core takes over two lanes, of which its limit allows one.
  size_t moved_by_a_limit(bool lost) {
    lane_limit_ = {.measured = true, .first = 1};
    make(100, 4);
    send(TimerFired{});  // what a new core notes is read
    if (lost) scheduler_->lose(Changed::lanes);
    WorkerReport report;
    for (uint64_t id = 1; id <= 2; ++id) {
      ReportedJob job;
      job.offer.job = JobId(id);
      job.offer.session = SessionId(1);
      job.offer.persistent = units(10);
      job.offer.ephemeral = units(10);
      job.lane = LaneId(id);
      job.image_offset = units(static_cast<int64_t>(id) * 10 - 10);
      job.image_size = units(10);
      job.image.state = ImageState::here;
      report.jobs.push_back(job);
      report.regions.push_back(
          {RegionId(id), LaneId(id), units(100 - static_cast<int64_t>(id) * 10), units(10)});
    }
    return of<ChangeLane>(send(WorkerReported{report})).size();
  }
};

TEST_F(ChangesTest, AnotherPolicyIsAskedAgainWhoMayComeIn) {
  EXPECT_EQ(admitted_by_another_policy(/*lost=*/false), 1u);
  EXPECT_EQ(admitted_by_another_policy(/*lost=*/true), 0u);
}

TEST_F(ChangesTest, LanesThatAreTooManyAreFolded) {
  EXPECT_EQ(moved_by_a_limit(/*lost=*/false), 1u);
  EXPECT_EQ(moved_by_a_limit(/*lost=*/true), 0u);
}

}  // namespace
}  // namespace laneway::lanes
