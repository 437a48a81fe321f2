// What the core decides, event by event: small scenes whose arithmetic can be done by hand. Sizes
// are in units of the alignment (64 bytes), so that "40 units" in a pool of 100 is what it says.
#include "lanes/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "policies/fifo.h"
#include "policies/srtf.h"

namespace laneway::lanes {
namespace {

constexpr Bytes units(int64_t n) { return Bytes(n * 64); }

// The actions of one kind, in order.
template <class T>
std::vector<T> of(const std::vector<Action>& actions) {
  std::vector<T> some;
  for (const Action& action : actions) {
    if (const T* it = std::get_if<T>(&action)) some.push_back(*it);
  }
  return some;
}

class SchedulerTest : public testing::Test {
 protected:
  void make(int64_t pool_units, uint32_t max_lanes, int64_t reserve_units = 0,
            std::unique_ptr<policies::Policy> policy = std::make_unique<policies::Fifo>()) {
    SchedulerConfig config;
    config.capacity = units(pool_units);
    config.reserve = units(reserve_units);
    config.max_lanes = max_lanes;
    scheduler_ = std::make_unique<Scheduler>(config, std::move(policy));
  }

  std::vector<Action> send(const Event& event) {
    now_ = now_ + microseconds(1);
    return scheduler_->handle(now_, event);
  }
  std::vector<Action> offer(uint64_t id, int64_t persistent, int64_t ephemeral,
                            uint64_t context_key = 0, uint64_t session = 1) {
    JobOffered job;
    job.job = JobId(id);
    job.session = SessionId(session);
    job.name = "job" + std::to_string(id);
    job.persistent = units(persistent);
    job.ephemeral = units(ephemeral);
    job.context_key = context_key;
    return send(job);
  }
  std::vector<Action> place(uint64_t id) { return send(ImagePlaced{JobId(id)}); }
  std::vector<Action> ready(uint64_t id) { return send(WorkReady{JobId(id)}); }
  // Admitted, placed, with work: its turn is open when its lane was idle.
  std::vector<Action> start(uint64_t id, int64_t persistent, int64_t ephemeral,
                            uint64_t context_key = 0) {
    offer(id, persistent, ephemeral, context_key);
    place(id);
    return ready(id);
  }
  std::vector<Action> end_turn(TurnId turn, TurnEnd end, bool more_ready,
                               Bytes ephemeral = Bytes(0), uint64_t iterations = 1) {
    return send(TurnEnded{.turn = turn,
                          .end = end,
                          .iterations = iterations,
                          .busy = microseconds(10),
                          .more_ready = more_ready,
                          .ephemeral = ephemeral});
  }
  JobStatus job(uint64_t id) const {
    for (const JobStatus& status : scheduler_->snapshot().jobs) {
      if (status.id == JobId(id)) return status;
    }
    ADD_FAILURE() << "no job " << id;
    return {};
  }

  std::unique_ptr<Scheduler> scheduler_;
  TimePoint now_;
};

TEST_F(SchedulerTest, AdmitsIntoALaneOfItsOwnImageLowRegionHigh) {
  make(100, 4);
  const auto actions = offer(1, 30, 20);
  ASSERT_EQ(actions.size(), 3u);
  EXPECT_EQ(std::get<AdmitJob>(actions[0]).lane, LaneId(1));
  const auto region = std::get<OpenRegion>(actions[1]);
  EXPECT_EQ(region.offset, units(80));
  EXPECT_EQ(region.size, units(20));
  const auto image = std::get<PlaceImage>(actions[2]);
  EXPECT_EQ(image.offset, units(0));
  EXPECT_EQ(image.size, units(30));
  EXPECT_EQ(job(1).state, JobState::staged);
}

TEST_F(SchedulerTest, GrantsATurnWithoutBoundWhenNobodyElseWantsTheLane) {
  make(100, 4);
  offer(1, 30, 20);
  EXPECT_TRUE(of<GrantTurn>(ready(1)).empty()) << "its image is not there yet";
  const auto grants = of<GrantTurn>(place(1));
  ASSERT_EQ(grants.size(), 1u);
  const Turn turn = grants[0].turn;
  EXPECT_EQ(turn.job, JobId(1));
  EXPECT_EQ(turn.envelope.base, units(80));
  EXPECT_EQ(turn.envelope.ceiling, units(20));
  EXPECT_EQ(turn.envelope.budget.iterations, 0u);
  EXPECT_EQ(turn.envelope.budget.slice, Duration(0));
  EXPECT_EQ(scheduler_->next_wakeup(), TimePoint::never());
}

TEST_F(SchedulerTest, RecallsAnUnboundedTurnWhenARivalGetsReadyThenGivesBoundedOnes) {
  make(100, 1);
  const Turn first = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  offer(2, 10, 20);
  place(2);
  const auto recalls = of<RecallTurn>(ready(2));
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].turn, first.id);
  EXPECT_TRUE(of<RecallTurn>(ready(2)).empty()) << "asked once";
  const auto grants = of<GrantTurn>(end_turn(first.id, TurnEnd::budget, /*more_ready=*/true));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].turn.job, JobId(1)) << "fifo: the earliest that has work";
  EXPECT_EQ(grants[0].turn.envelope.budget.iterations, SchedulerConfig().budget.iterations);
  const auto next = of<GrantTurn>(end_turn(grants[0].turn.id, TurnEnd::idle, false));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].turn.job, JobId(2));
  EXPECT_EQ(next[0].turn.envelope.budget.iterations, 0u) << "no rival is left";
}

TEST_F(SchedulerTest, RecallsABoundedTurnThatIsStillOpenAfterTwiceItsSlice) {
  make(100, 1);
  const Turn first = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  start(2, 10, 20);
  const Turn bounded = of<GrantTurn>(end_turn(first.id, TurnEnd::budget, true)).at(0).turn;
  const TimePoint due = now_ + SchedulerConfig().budget.slice * 2;
  EXPECT_EQ(scheduler_->next_wakeup(), due);
  EXPECT_TRUE(scheduler_->handle(due + Duration(-1), TimerFired{}).empty());
  const auto recalls = of<RecallTurn>(scheduler_->handle(due, TimerFired{}));
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].turn, bounded.id);
  EXPECT_EQ(scheduler_->next_wakeup(), TimePoint::never());
}

TEST_F(SchedulerTest, WorkAnnouncedDuringATurnIsNotLostWhenTheTurnEndsIdle) {
  make(100, 1);
  const Turn first = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  EXPECT_TRUE(ready(1).empty()) << "a turn is open: the worker looks for itself";
  // The worker saw an empty queue before the submission; its report crosses the announcement.
  const auto grants = of<GrantTurn>(end_turn(first.id, TurnEnd::idle, /*more_ready=*/false));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].turn.job, JobId(1));
}

TEST_F(SchedulerTest, RefusesWhatAnEmptyPoolCannotHoldWithTheArithmetic) {
  make(100, 4, /*reserve_units=*/10);
  start(1, 30, 20);
  const auto refused = of<RefuseJob>(offer(2, 60, 31));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].reason.code, ReasonCode::larger_than_pool);
  EXPECT_EQ(refused[0].reason.persistent, units(60));
  EXPECT_EQ(refused[0].reason.region, units(31));
  EXPECT_EQ(refused[0].reason.capacity, units(90)) << "the reserve is nobody's";
  EXPECT_TRUE(of<RefuseJob>(offer(3, 60, 30)).empty()) << "exactly all of it could fit";
  EXPECT_EQ(job(3).reason.code, ReasonCode::pool_full);
  EXPECT_EQ(of<RefuseJob>(offer(4, INT64_MAX / 64, INT64_MAX / 64)).size(), 1u) << "no overflow";
}

TEST_F(SchedulerTest, QueuesWithPositionAndReasonAndAdmitsWhenMemoryIsFreed) {
  make(100, 4);
  start(1, 30, 30);
  const auto second = of<QueueJob>(offer(2, 50, 30));
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].reason.code, ReasonCode::pool_full);
  EXPECT_EQ(second[0].reason.position, 1u);
  EXPECT_EQ(second[0].reason.claimed, units(60));
  const auto third = of<QueueJob>(offer(3, 5, 5));
  ASSERT_EQ(third.size(), 1u);
  EXPECT_EQ(third[0].reason.code, ReasonCode::behind_others) << "fifo: head of line";
  EXPECT_EQ(third[0].reason.position, 2u);
  const auto recalls = of<RecallTurn>(send(JobEnded{JobId(1), false}));
  ASSERT_EQ(recalls.size(), 1u);
  const auto after = end_turn(recalls[0].turn, TurnEnd::idle, false);
  EXPECT_EQ(of<DropImage>(after).at(0).job, JobId(1));
  EXPECT_EQ(of<CloseRegion>(after).size(), 1u);
  const auto admitted = of<AdmitJob>(after);
  ASSERT_EQ(admitted.size(), 2u);
  EXPECT_EQ(admitted[0].job, JobId(2));
  EXPECT_EQ(admitted[1].job, JobId(3));
}

TEST_F(SchedulerTest, SharesALaneWhenANewOneFindsNoRoom) {
  make(100, 4);
  start(1, 30, 40);
  // 30 + 40 + 20 + 10 = 100 fits only if the 40 are used by both.
  const auto actions = offer(2, 20, 40);
  EXPECT_EQ(of<AdmitJob>(actions).at(0).lane, LaneId(1));
  EXPECT_TRUE(of<OpenRegion>(actions).empty());
  EXPECT_EQ(scheduler_->pool().claimed(), units(90));
}

TEST_F(SchedulerTest, GrowsALaneForAnotherJobBetweenTwoTurns) {
  make(100, 1);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  const auto offered = offer(2, 10, 50);
  EXPECT_EQ(of<RecallTurn>(offered).size(), 1u) << "the region may not change under a turn";
  EXPECT_TRUE(of<AdmitJob>(offered).empty());
  const auto after = end_turn(turn.id, TurnEnd::budget, true);
  EXPECT_EQ(of<AdmitJob>(after).size(), 1u);
  const auto resized = of<ResizeRegion>(after);
  ASSERT_EQ(resized.size(), 1u);
  EXPECT_EQ(resized[0].size, units(50));
  EXPECT_EQ(resized[0].offset, units(50));
  EXPECT_EQ(of<GrantTurn>(after).at(0).turn.envelope.ceiling, units(50));
}

TEST_F(SchedulerTest, WaitsForALaneWhenAllAreTakenAndThePolicySharesNone) {
  make(100, 1, 0, std::make_unique<policies::Fifo>(/*share=*/false));
  start(1, 10, 10);
  EXPECT_EQ(of<QueueJob>(offer(2, 10, 10)).at(0).reason.code, ReasonCode::lanes_exhausted);
}

TEST_F(SchedulerTest, TellsFragmentedFromFull) {
  make(100, 4);
  offer(1, 30, 1);
  offer(2, 30, 1);
  offer(3, 30, 1);
  send(JobEnded{JobId(1), false});
  send(JobEnded{JobId(3), false});
  // Free are 30 at the bottom and 38 or 39 at the top: 69 bytes, but no 50 in one piece.
  const auto queued = of<QueueJob>(offer(4, 50, 1));
  ASSERT_EQ(queued.size(), 1u);
  EXPECT_EQ(queued[0].reason.code, ReasonCode::pool_fragmented);
  EXPECT_LT(queued[0].reason.largest_free, units(50));
}

TEST_F(SchedulerTest, GrowsTheLaneAfterOutOfLaneAndRunsAgain) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  const auto after = end_turn(turn.id, TurnEnd::out_of_lane, true, units(35), 0);
  EXPECT_EQ(of<ResizeRegion>(after).at(0).size, units(35));
  EXPECT_EQ(of<GrantTurn>(after).at(0).turn.envelope.ceiling, units(35));
  // A worker that says it needs no more than it had would come back for ever: a quarter more.
  const Turn second = of<GrantTurn>(after).at(0).turn;
  const auto again = end_turn(second.id, TurnEnd::out_of_lane, true, units(20), 0);
  EXPECT_EQ(job(1).ephemeral, Bytes(units(35).count() + units(35).count() / 4));
  EXPECT_EQ(of<GrantTurn>(again).size(), 1u);
}

TEST_F(SchedulerTest, HoldsAJobWhoseLaneCannotGrowAndAdmitsNobodyBeforeIt) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  start(2, 30, 30);
  const auto after = end_turn(turn.id, TurnEnd::out_of_lane, true, units(60), 0);
  EXPECT_TRUE(of<GrantTurn>(after).empty());
  EXPECT_EQ(job(1).state, JobState::held);
  EXPECT_EQ(job(1).reason.code, ReasonCode::region_too_small);
  EXPECT_EQ(of<ResizeRegion>(after).at(0).size, units(1)) << "what it can't use is given back";
  EXPECT_EQ(of<QueueJob>(offer(3, 1, 1)).at(0).reason.code, ReasonCode::pool_full);
  const auto recalls = of<RecallTurn>(send(JobEnded{JobId(2), true}));
  const auto freed = end_turn(recalls.at(0).turn, TurnEnd::idle, false);
  EXPECT_EQ(of<GrantTurn>(freed).at(0).turn.job, JobId(1));
  EXPECT_EQ(of<GrantTurn>(freed).at(0).turn.envelope.ceiling, units(60));
  EXPECT_EQ(of<AdmitJob>(freed).at(0).job, JobId(3));
}

TEST_F(SchedulerTest, FailsAJobWhoseNeedOutgrowsThePool) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  const auto after = end_turn(turn.id, TurnEnd::out_of_lane, true, units(91), 0);
  EXPECT_EQ(of<RefuseJob>(after).at(0).reason.code, ReasonCode::larger_than_pool);
  EXPECT_EQ(of<DropImage>(after).size(), 1u);
  EXPECT_EQ(scheduler_->pool().claimed(), Bytes(0));
  EXPECT_EQ(scheduler_->snapshot().ended.at(0).state, JobState::failed);
}

TEST_F(SchedulerTest, ShrinksTheRegionToWhatTheProbeFoundAndLetsOthersIn) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 60)).at(0).turn;
  offer(2, 20, 30);  // 10 + 60 + 20 + 30 > 100: shares the lane
  EXPECT_EQ(job(2).lane, LaneId(1));
  offer(3, 20, 25);
  EXPECT_EQ(job(3).state, JobState::waiting);
  const auto after = end_turn(turn.id, TurnEnd::idle, false, units(35));
  EXPECT_EQ(of<ResizeRegion>(after).at(0).size, units(35)) << "the larger of 35 and 30";
  const auto admitted = of<AdmitJob>(after);
  ASSERT_EQ(admitted.size(), 1u) << "10 + 20 + 20 + 35 fits";
  EXPECT_EQ(admitted[0].lane, LaneId(1)) << "and a lane of 25 of its own would not";
}

TEST_F(SchedulerTest, KeepsNumericContextsApartAndStarvesNone) {
  make(100, 4);
  const Turn first = of<GrantTurn>(start(1, 5, 5, /*context_key=*/1)).at(0).turn;
  const auto second = start(2, 5, 5, /*context_key=*/2);
  EXPECT_TRUE(of<GrantTurn>(second).empty());
  EXPECT_EQ(of<RecallTurn>(second).at(0).turn, first.id);
  EXPECT_EQ(job(2).reason.code, ReasonCode::context_conflict);
  EXPECT_TRUE(of<GrantTurn>(start(3, 5, 5, /*context_key=*/1)).empty()) << "2 waited before it";
  const auto third = of<GrantTurn>(end_turn(first.id, TurnEnd::budget, true));
  ASSERT_EQ(third.size(), 1u);
  EXPECT_EQ(third[0].turn.job, JobId(2));
  EXPECT_GT(third[0].turn.envelope.budget.iterations, 0u) << "bounded: key 1 waits";
  const auto back = of<GrantTurn>(end_turn(third[0].turn.id, TurnEnd::budget, true));
  ASSERT_EQ(back.size(), 2u) << "both jobs of key 1, side by side";
}

TEST_F(SchedulerTest, ASessionsJobsVanishWithIt) {
  make(100, 2);
  const Turn turn = of<GrantTurn>(start(1, 30, 10)).at(0).turn;
  offer(2, 80, 10, 0, /*session=*/1);
  offer(3, 80, 10, 0, /*session=*/2);
  const auto actions = send(SessionEnded{SessionId(1), true});
  EXPECT_EQ(of<RecallTurn>(actions).at(0).turn, turn.id);
  const auto after = end_turn(turn.id, TurnEnd::budget, true);
  EXPECT_EQ(of<DropImage>(after).at(0).job, JobId(1));
  EXPECT_EQ(of<AdmitJob>(after).at(0).job, JobId(3));
  EXPECT_EQ(scheduler_->snapshot().ended.size(), 2u);
  EXPECT_EQ(scheduler_->snapshot().ended[0].state, JobState::cancelled);
}

TEST_F(SchedulerTest, ALostWorkersTurnsAreOverAndRunAgainWithTheNextWorker) {
  make(100, 2);
  const Turn turn = of<GrantTurn>(start(1, 10, 10)).at(0).turn;
  offer(2, 10, 10);  // its image is on the way
  EXPECT_TRUE(send(WorkerLost{WorkerId(1)}).empty());
  EXPECT_TRUE(end_turn(turn.id, TurnEnd::idle, false).empty()) << "a report of the dead";
  EXPECT_TRUE(of<GrantTurn>(ready(1)).empty());
  const auto actions = send(WorkerReady{WorkerId(2)});
  EXPECT_EQ(of<PlaceImage>(actions).at(0).job, JobId(2)) << "asked for again";
  EXPECT_EQ(of<GrantTurn>(actions).at(0).turn.job, JobId(1));
}

TEST_F(SchedulerTest, ShrinksThePoolWhenEverythingAboveIsGone) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;  // its region is 80 to 100
  EXPECT_EQ(of<RecallTurn>(send(CapacityChanged{units(60)})).size(), 1u);
  EXPECT_EQ(scheduler_->pool().capacity(), units(100)) << "deferred: a turn is open there";
  EXPECT_EQ(of<QueueJob>(offer(2, 1, 1)).size(), 1u) << "nobody is admitted meanwhile";
  const auto after = end_turn(turn.id, TurnEnd::budget, true);
  const auto moved = of<ResizeRegion>(after);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_LE(moved[0].offset + moved[0].size, units(60));
  EXPECT_EQ(scheduler_->pool().capacity(), units(60));
  EXPECT_EQ(of<AdmitJob>(after).size(), 1u);
  EXPECT_EQ(of<RefuseJob>(offer(3, 50, 11)).size(), 1u);
  send(CapacityChanged{units(200)});
  EXPECT_EQ(scheduler_->pool().capacity(), units(200)) << "growing happens at once";
}

// Answers with a job that does not exist, or with the one that was there first.
class Wrong final : public policies::Policy {
 public:
  std::string_view name() const override { return "wrong"; }
  policies::AdmitDecision admit(TimePoint, const policies::View&) override {
    return {.job = JobId(99), .lane = {}};
  }
  JobId pick(TimePoint, const policies::View&, const policies::PickQuestion&) override {
    return JobId(99);
  }
  JobId evict(TimePoint, const policies::View&, const policies::EvictQuestion&) override {
    return {};
  }
};

TEST_F(SchedulerTest, RefusesNonsenseAndGoesOnWithFifo) {
  make(100, 1, 0, std::make_unique<Wrong>());
  EXPECT_EQ(of<AdmitJob>(offer(1, 10, 10)).size(), 1u);
  EXPECT_EQ(scheduler_->policy_faults(), 1u);
  place(1);
  EXPECT_EQ(of<GrantTurn>(ready(1)).size(), 1u);
  EXPECT_EQ(scheduler_->policy_faults(), 2u);
  scheduler_->set_policy(std::make_unique<policies::Srtf>());
  EXPECT_EQ(scheduler_->snapshot().policy, "srtf");
}

TEST_F(SchedulerTest, RefusesMoreJobsThanItsLimit) {
  SchedulerConfig config;
  config.capacity = units(100);
  config.max_jobs = 2;
  scheduler_ = std::make_unique<Scheduler>(config, std::make_unique<policies::Fifo>());
  offer(1, 1, 1);
  offer(2, 1, 1);
  EXPECT_EQ(of<RefuseJob>(offer(3, 1, 1)).at(0).reason.code, ReasonCode::too_many_jobs);
}

TEST_F(SchedulerTest, TheSnapshotsMapTilesThePool) {
  make(100, 4, 5);
  start(1, 10, 20);
  offer(2, 30, 15);
  const Snapshot all = scheduler_->snapshot();
  ASSERT_EQ(all.pool.size(), 5u);
  EXPECT_EQ(all.pool[0].job, JobId(1));
  EXPECT_EQ(all.pool[1].job, JobId(2));
  EXPECT_EQ(all.pool[2].kind, PieceKind::free);
  EXPECT_EQ(all.pool[2].size, units(25));
  EXPECT_EQ(all.pool[3].lane, LaneId(2));
  EXPECT_EQ(all.pool[4].lane, LaneId(1));
  EXPECT_EQ(all.claimed, units(80));
  using memory::ClaimClass;
  EXPECT_EQ(all.claimed_by_class[static_cast<size_t>(ClaimClass::persistent)], units(40));
  EXPECT_EQ(all.claimed_by_class[static_cast<size_t>(ClaimClass::region)], units(35));
  EXPECT_EQ(all.claimed_by_class[static_cast<size_t>(ClaimClass::overhead)], units(5));
  EXPECT_EQ(all.lanes.size(), 2u);
  EXPECT_EQ(all.lanes[0].running, JobId(1));
}

}  // namespace
}  // namespace laneway::lanes
