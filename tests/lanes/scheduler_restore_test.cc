// What a core made anew from a worker's report knows and does: scenes whose places are given by
// hand, and reports of random nonsense, after which the pool must still tile, claims must still fit
// and the core must still go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "base/random.h"
#include "policies/registry.h"
#include "tests/lanes/garbage.h"
#include "tests/lanes/scheduler_scene.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

class RestoreTest : public SchedulerTest {
 protected:
  static ReportedJob waits(uint64_t id, int64_t persistent, int64_t ephemeral) {
    ReportedJob job;
    job.offer.job = JobId(id);
    job.offer.session = SessionId(1);
    job.offer.options.name = "job" + std::to_string(id);
    job.offer.persistent = units(persistent);
    job.offer.ephemeral = units(ephemeral);
    return job;
  }
  static ReportedJob lies(uint64_t id, int64_t persistent, int64_t ephemeral, uint64_t lane,
                          int64_t offset) {
    ReportedJob job = waits(id, persistent, ephemeral);
    job.lane = LaneId(lane);
    job.image_offset = units(offset);
    job.image_size = units(persistent);
    job.image.state = ImageState::here;
    return job;
  }
  void region(uint64_t id, uint64_t lane, int64_t offset, int64_t size) {
    report_.regions.push_back({RegionId(id), LaneId(lane), units(offset), units(size)});
  }
  std::vector<Action> restore() { return send(WorkerReported{report_}); }

  WorkerReport report_;
};

TEST_F(RestoreTest, EverythingStandsWhereTheReportSaysAndIdsGoOnBehindIt) {
  make(100, 4);
  report_.last_turn = TurnId(17);
  report_.last_region = RegionId(9);
  region(8, 2, 60, 20);
  report_.jobs = {waits(12, 10, 10), lies(5, 30, 20, 2, 20)};
  report_.jobs[1].iterations = 7;
  report_.jobs[1].busy = milliseconds(21);
  report_.jobs[1].ready = true;
  const auto actions = restore();
  const auto turns = of<GrantTurn>(actions);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].turn.id, TurnId(18)) << "old turns' ends that are under way are not its own";
  EXPECT_EQ(turns[0].turn.envelope.base, units(60));
  EXPECT_EQ(turns[0].turn.envelope.ceiling, units(20));
  const auto opened = of<OpenRegion>(actions);
  ASSERT_EQ(opened.size(), 1u) << "the job that waited finds room in a lane of its own";
  EXPECT_EQ(opened[0].region, RegionId(10));
  EXPECT_EQ(opened[0].lane, LaneId(1));
  const auto placed = of<PlaceImage>(actions);
  ASSERT_EQ(placed.size(), 1u) << "what is placed is not placed again";
  EXPECT_EQ(placed[0].job, JobId(12));
  EXPECT_EQ(job(5).iterations, 7u);
  EXPECT_EQ(job(5).device_time, milliseconds(21));
  EXPECT_EQ(job(5).state, JobState::running);
  EXPECT_EQ(scheduler_->pool().claimed(), units(30 + 20 + 10 + 10));
}

TEST_F(RestoreTest, WaitingJobsStandInTheOrderOfTheirIds) {
  make(100, 1);
  region(1, 1, 50, 50);
  report_.jobs = {waits(9, 20, 5), waits(3, 40, 5), lies(1, 20, 50, 1, 0)};
  const auto queued = of<QueueJob>(restore());
  ASSERT_EQ(queued.size(), 2u);
  EXPECT_EQ(queued[0].job, JobId(3));
  EXPECT_EQ(queued[0].reason.position, 1u);
  EXPECT_EQ(queued[1].job, JobId(9));
  EXPECT_EQ(queued[1].reason.position, 2u);
}

TEST_F(RestoreTest, AnOpenTurnStaysOpenUntilSomebodyElseWantsTheLane) {
  make(100, 1);
  region(1, 1, 80, 20);
  report_.jobs = {lies(1, 10, 20, 1, 0), lies(2, 10, 20, 1, 10)};
  report_.jobs[0].turn = TurnId(4);
  EXPECT_TRUE(restore().empty());
  EXPECT_EQ(job(1).state, JobState::running);
  const auto recalls = of<RecallTurn>(ready(2));
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].turn, TurnId(4));
  const auto next = of<GrantTurn>(end_turn(TurnId(4), TurnEnd::budget, true, Bytes(0), 3));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].turn.job, JobId(1)) << "fifo: the earlier one has work still";
  EXPECT_EQ(next[0].turn.id, TurnId(5));
  EXPECT_EQ(job(1).iterations, 3u);
}

TEST_F(RestoreTest, ARivalWithWorkRecallsTheOpenTurnAtOnce) {
  make(100, 1);
  region(1, 1, 80, 20);
  report_.jobs = {lies(1, 10, 20, 1, 0), lies(2, 10, 20, 1, 10)};
  report_.jobs[0].turn = TurnId(4);
  report_.jobs[1].ready = true;
  EXPECT_EQ(of<RecallTurn>(restore()).size(), 1u);
}

TEST_F(RestoreTest, AnImageOnItsWayIsAskedForAgainInItsPlace) {
  make(100, 4);
  region(1, 1, 80, 20);
  report_.jobs = {lies(1, 10, 20, 1, 30)};
  report_.jobs[0].image.state = ImageState::coming;
  report_.jobs[0].ready = true;
  const auto actions = restore();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<PlaceImage>(actions[0]).offset, units(30));
  EXPECT_EQ(of<GrantTurn>(place(1)).size(), 1u);
}

TEST_F(RestoreTest, ALaneWithoutJobsIsClosedAndOneTooSmallGrows) {
  make(100, 4);
  region(1, 1, 90, 10);
  region(2, 2, 60, 10);
  report_.jobs = {lies(1, 10, 25, 2, 0)};
  const auto actions = restore();
  ASSERT_EQ(of<CloseRegion>(actions).size(), 1u);
  EXPECT_EQ(of<CloseRegion>(actions)[0].region, RegionId(1));
  ASSERT_EQ(of<ResizeRegion>(actions).size(), 1u);
  EXPECT_EQ(of<ResizeRegion>(actions)[0].size, units(25));
}

TEST_F(RestoreTest, JobsThatAreOverGiveTheirMemoryBack) {
  make(100, 4);
  region(1, 1, 80, 20);
  report_.jobs = {lies(1, 10, 20, 1, 0), lies(2, 10, 20, 1, 10), waits(3, 1, 1)};
  report_.jobs[0].over = true;
  report_.jobs[0].turn = TurnId(4);
  report_.jobs[1].over = true;
  report_.jobs[2].over = true;
  const auto actions = restore();
  ASSERT_EQ(of<DropImage>(actions).size(), 1u);
  EXPECT_EQ(of<DropImage>(actions)[0].job, JobId(2));
  ASSERT_EQ(of<RefuseJob>(actions).size(), 1u);
  EXPECT_EQ(of<RefuseJob>(actions)[0].job, JobId(3));
  EXPECT_EQ(of<RecallTurn>(actions).size(), 1u) << "the first one runs: it goes at its boundary";
  const auto after = end_turn(TurnId(4), TurnEnd::idle, false);
  EXPECT_EQ(of<DropImage>(after).size(), 1u);
  EXPECT_EQ(of<CloseRegion>(after).size(), 1u);
  EXPECT_EQ(scheduler_->pool().claimed(), Bytes(0));
}

TEST_F(RestoreTest, AQuarantinedJobNeedsNoRegionUntilItIsReleased) {
  make(100, 4, 0, policies::make_policy("fifo:share=no").value());
  region(1, 1, 60, 40);
  report_.jobs = {lies(1, 10, 40, 1, 0), waits(2, 20, 60)};
  report_.jobs[0].quarantined = true;
  const auto actions = restore();
  EXPECT_EQ(job(1).state, JobState::quarantined);
  EXPECT_EQ(job(1).reason.code, ReasonCode::quarantined);
  ASSERT_EQ(of<ResizeRegion>(actions).size(), 1u) << "what it does not use is others'";
  EXPECT_EQ(of<ResizeRegion>(actions)[0].size, units(1));
  ASSERT_EQ(of<AdmitJob>(actions).size(), 1u);

  // Its clients are answered, in turns.
  const auto granted = of<GrantTurn>(ready(1));
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_EQ(job(1).state, JobState::quarantined) << "it only answers in its turns";
  send(NeedChanged{JobId(1), units(50)});
  end_turn(granted[0].turn.id, TurnEnd::idle, false);
  EXPECT_EQ(job(1).state, JobState::quarantined);

  send(JobReleased{JobId(1)});
  EXPECT_EQ(job(1).ephemeral, units(50));
  EXPECT_EQ(job(1).state, JobState::resident) << "its next iteration may be a small one";
  const TurnId tried = of<GrantTurn>(ready(1)).at(0).turn.id;
  end_turn(tried, TurnEnd::out_of_lane, true, units(50), 0);
  EXPECT_EQ(job(1).state, JobState::held) << "the room is another's now";
  const auto after = send(JobEnded{JobId(2), false});
  EXPECT_EQ(job(1).state, JobState::running);
  EXPECT_EQ(of<ResizeRegion>(after).at(0).size, units(50));
}

TEST_F(RestoreTest, AQuarantinedJobEndsLikeAnyOther) {
  make(100, 4);
  region(1, 1, 60, 40);
  report_.jobs = {lies(1, 10, 40, 1, 0), lies(2, 10, 40, 1, 10)};
  report_.jobs[0].quarantined = true;
  report_.jobs[1].quarantined = true;
  report_.jobs[1].image.state = ImageState::coming;
  restore();
  EXPECT_EQ(job(2).state, JobState::staged);
  place(2);
  EXPECT_EQ(job(2).state, JobState::quarantined);
  send(JobReleased{JobId(9)});
  send(JobReleased{JobId(2)});
  EXPECT_EQ(job(2).state, JobState::resident);
  const uint64_t ignored = scheduler_->snapshot().ignored_events;
  send(JobReleased{JobId(2)});
  EXPECT_EQ(scheduler_->snapshot().ignored_events, ignored + 1);
  EXPECT_EQ(of<DropImage>(send(JobEnded{JobId(1), true})).size(), 1u);
  send(JobEnded{JobId(2), true});
  EXPECT_EQ(scheduler_->pool().claimed(), Bytes(0));
}

TEST_F(RestoreTest, WhatGrewPastThePoolMeanwhileIsRefusedWhenItsTurnEnded) {
  make(100, 4);
  region(1, 1, 80, 20);
  report_.jobs = {lies(1, 10, 20, 1, 0)};
  report_.jobs[0].turn = TurnId(2);
  report_.jobs[0].offer.ephemeral = Bytes(INT64_MAX);
  const auto actions = restore();
  EXPECT_EQ(of<RefuseJob>(actions).at(0).reason.code, ReasonCode::larger_than_pool);
  EXPECT_EQ(of<RecallTurn>(actions).size(), 1u);
  EXPECT_EQ(of<DropImage>(end_turn(TurnId(2), TurnEnd::idle, false)).size(), 1u);
}

TEST_F(RestoreTest, ACoreThatKnowsJobsIgnoresAReport) {
  make(100, 4);
  offer(1, 10, 10);
  region(1, 2, 0, 20);
  report_.jobs = {lies(2, 10, 20, 2, 40)};
  EXPECT_TRUE(restore().empty());
  EXPECT_EQ(scheduler_->snapshot().ignored_events, 1u);
  EXPECT_EQ(scheduler_->snapshot().jobs.size(), 1u);
}

TEST_F(RestoreTest, ContradictionsAreRefusedAndTheRestStands) {
  make(100, 4);
  region(1, 1, 80, 20);
  region(2, 2, 70, 20);                                            // overlaps the first
  region(3, 9, 60, 10);                                            // no such lane
  region(4, 1, 50, 10);                                            // a second region of a lane
  region(5, 3, 95, 10);                                            // beyond the pool
  region(6, 4, 45, 5);                                             // fine
  report_.jobs = {lies(1, 10, 20, 1, 0),  lies(2, 10, 10, 2, 10),  // its lane was refused
                  lies(3, 10, 10, 1, 5),                           // overlaps the first
                  lies(4, 10, 10, 7, 20),                          // no such lane
                  lies(5, 10, 10, 1, 95),                          // beyond the pool
                  lies(6, 10, 5, 4, 20),  lies(7, 10, 5, 4, 30)};
  report_.jobs[6].image_size = units(11);  // not what PlaceImage gives
  const auto actions = restore();
  std::set<uint64_t> closed;
  for (const CloseRegion& close : of<CloseRegion>(actions)) closed.insert(close.region.value());
  EXPECT_EQ(closed, (std::set<uint64_t>{2, 3, 4, 5}));
  std::set<uint64_t> refused;
  for (const RefuseJob& refuse : of<RefuseJob>(actions)) {
    EXPECT_EQ(refuse.reason.code, ReasonCode::contradicted);
    refused.insert(refuse.job.value());
  }
  EXPECT_EQ(refused, (std::set<uint64_t>{2, 3, 4, 5, 7}));
  EXPECT_EQ(of<DropImage>(actions).size(), refused.size());
  EXPECT_EQ(scheduler_->pool().claimed(), units(10 + 20 + 10 + 5));
}

TEST_F(RestoreTest, OneTurnALaneAndOneNumericContextAtATime) {
  make(100, 4);
  region(1, 1, 80, 20);
  region(2, 2, 60, 20);
  report_.jobs = {lies(1, 5, 20, 1, 0), lies(2, 5, 20, 1, 5), lies(3, 5, 20, 2, 10),
                  lies(4, 5, 20, 2, 15)};
  report_.jobs[0].turn = TurnId(1);
  report_.jobs[1].turn = TurnId(2);  // a second one in the lane
  report_.jobs[2].turn = TurnId(3);
  report_.jobs[2].offer.context_key = 7;  // beside a turn of another context
  report_.jobs[3].turn = TurnId(1);       // the first one's
  const auto actions = restore();
  EXPECT_EQ(of<RefuseJob>(actions).size(), 3u);
  EXPECT_EQ(of<RecallTurn>(actions).size(), 3u) << "the worker ends them";
  EXPECT_EQ(job(1).state, JobState::running);
}

TEST_F(RestoreTest, WhatThePolicyOfTheCoreBeforeNotedDecidesOn) {
  // By fair the last turn of job 2 was a long one, so job 1 has the next ones. Who knows nothing
  // lets them alternate, and so does who is told what another policy noted, or what held in another
  // lane.
  const auto first_turns = [&](const char* noted_by, uint64_t lane) {
    report_ = {};
    make(100, 1, 0, policies::make_policy("fair").value());
    region(1, 1, 80, 20);
    report_.jobs = {lies(1, 5, 20, 1, 0), lies(2, 5, 20, 1, 5)};
    for (ReportedJob& job : report_.jobs) {
      job.ready = true;
      job.busy = milliseconds(500);
      const bool is_first = job.offer.job == JobId(1);
      const double tag = is_first ? 6e8 : 5e8;
      const Duration busy_then = job.busy - milliseconds(is_first ? 20 : 200);
      job.learnt = {.policy = note_key(noted_by),
                    .lane = LaneId(lane),
                    .note = {.first = std::bit_cast<int64_t>(tag), .second = busy_then.ns()}};
    }
    std::vector<Action> actions = restore();
    std::string turns;
    for (int i = 0; i < 6; ++i) {
      const Turn turn = of<GrantTurn>(actions).at(0).turn;
      turns += std::to_string(turn.job.value());
      now_ = now_ + milliseconds(20);
      actions = send(TurnEnded{.turn = turn.id,
                               .end = TurnEnd::budget,
                               .iterations = 2,
                               .busy = milliseconds(20),
                               .more_ready = true,
                               .ephemeral = Bytes()});
    }
    return turns;
  };
  EXPECT_EQ(first_turns("fair", 1), "111121");
  EXPECT_EQ(first_turns("sjf", 1), "121212");
  EXPECT_EQ(first_turns("fair", 2), "121212");
}

// What must hold of every core at every moment, from its snapshot alone.
void check(const Scheduler& core) {
  const Snapshot now = core.snapshot();
  int64_t at = 0;
  int64_t taken = now.reserve.count();
  for (const PoolPiece& piece : now.pool) {
    ASSERT_EQ(piece.offset.count(), at) << "pieces tile the pool";
    ASSERT_GT(piece.size.count(), 0);
    at += piece.size.count();
    if (piece.kind != PieceKind::free) taken += piece.size.count();
    // One that moves has its new place too.
    const auto moves = [&](const JobStatus& job) {
      return job.id == piece.job && job.state == JobState::moving;
    };
    if (std::any_of(now.jobs.begin(), now.jobs.end(), moves)) taken += piece.size.count();
  }
  ASSERT_EQ(at, now.capacity.count());
  ASSERT_EQ(taken, now.claimed.count());
  ASSERT_LE(taken, now.capacity.count());
  for (const LaneStatus& lane : now.lanes) {
    ASSERT_FALSE(lane.jobs.empty()) << "no lane stays open without jobs";
    size_t running = 0;
    for (const JobStatus& job : now.jobs) {
      const bool has_turn = job.state == JobState::running || job.state == JobState::paused;
      running += job.lane == lane.id && has_turn ? 1u : 0u;
    }
    ASSERT_EQ(running, lane.running.valid() ? 1u : 0u);
  }
}

TEST_F(RestoreTest, RandomNonsenseNeverBreaksWhatAlwaysHolds) {
  Random random(testing::seed_from_environment(4));
  Garbage garbage(random);
  size_t restored = 0;
  size_t refused = 0;
  size_t copies = 0;
  size_t restoring = 0;
  for (int round = 0; round < 3000; ++round) {
    store_ = units(random.between(0, 120));
    spill_ = units(random.chance(0.5) ? 0 : random.between(0, 120));
    const std::string_view policy = std::array{"fifo", "fair", "sjf", "packing"}.at(round % 4);
    garbage.set_policy(policy);
    make(random.between(10, 120), static_cast<uint32_t>(random.between(1, 5)), 0,
         policies::make_policy(policy).value());
    const auto actions = send(WorkerReported{garbage.report()});
    refused += of<RefuseJob>(actions).size();
    restored += scheduler_->snapshot().regions.size();
    for (const JobStatus& status : scheduler_->snapshot().jobs) {
      copies += status.clean;
      restoring += status.state == JobState::restoring;
    }
    check(*scheduler_);
    for (int i = 0; i < 25 && !HasFatalFailure(); ++i) {
      send(garbage.event());
      check(*scheduler_);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(restored, 300u) << "some of it must make sense";
  EXPECT_GT(refused, 500u);
  EXPECT_GT(copies, 50u);
  EXPECT_GT(restoring, 15u);
}

}  // namespace
}  // namespace laneway::lanes
