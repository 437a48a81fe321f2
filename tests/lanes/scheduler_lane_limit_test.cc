// Jobs compute in as many lanes as measured: those that are no inferences share lanes beyond the
// limit, a trial lets as many compute at the same time as its level says, and jobs of a lane that
// does not pay go to another one between two turns, where the policy's order decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class SchedulerLaneLimitTest : public SchedulerTest {
 protected:
  void make_limited(uint32_t first, const char* policy = "fifo") {
    lane_limit_ = {.measured = true, .first = first};
    make(1000, 64, 0, policies::make_policy(policy).value());
  }
  void start_as(uint64_t id, JobClass job_class, int64_t ephemeral = 10, uint64_t context_key = 0) {
    JobOffered offer;
    offer.job = JobId(id);
    offer.session = SessionId(1);
    offer.options.job_class = job_class;
    offer.persistent = units(10);
    offer.ephemeral = units(ephemeral);
    offer.context_key = context_key;
    follow(send(offer));
    follow(place(id));
    follow(ready(id));
  }
  // Keeps who has which turn.
  void follow(const std::vector<Action>& actions) {
    for (const GrantTurn& grant : of<GrantTurn>(actions))
      open_[grant.turn.job.value()] = grant.turn;
    for (const RecallTurn& recall : of<RecallTurn>(actions)) {
      for (auto& [job, turn] : open_) {
        if (turn.id == recall.turn) recalled_[job] = true;
      }
    }
  }
  // The turn of the job that has been open for longest ends; its job has more to do. All turns that
  // are open share the device. Returns whether another one begins.
  bool end_a_turn(double speed) {
    const auto first =
        std::min_element(open_.begin(), open_.end(),
                         [](const auto& a, const auto& b) { return a.second.id < b.second.id; });
    const Turn turn = first->second;
    const auto took = Duration(static_cast<int64_t>(20e6 / speed));
    now_ = now_ + Duration(took.ns() / static_cast<int64_t>(open_.size()));
    recalled_.erase(first->first);
    open_.erase(first);
    const size_t others = open_.size();
    follow(send(TurnEnded{.turn = turn.id,
                          .end = TurnEnd::budget,
                          .iterations = 4,
                          .busy = took,
                          .more_ready = true,
                          .ephemeral = Bytes()}));
    return open_.size() > others;
  }
  void run_a_trial(const std::map<size_t, double>& speeds) {
    // So that means are known.
    for (int i = 0; i < 8; ++i) end_a_turn(speeds.at(open_.size()));
    now_ = std::max(now_, scheduler_->next_wakeup());
    follow(send(TimerFired{}));
    ASSERT_TRUE(scheduler_->lane_limit().trying());
    for (int i = 0; i < 300 && scheduler_->lane_limit().trying(); ++i) {
      const bool begins = end_a_turn(speeds.at(open_.size()));
      const uint32_t level = scheduler_->lane_limit().level();
      EXPECT_TRUE(!begins || level == 0 || open_.size() <= level) << open_.size();
    }
    EXPECT_FALSE(scheduler_->lane_limit().trying());
  }
  size_t lanes() const { return scheduler_->snapshot().lanes.size(); }

  std::map<uint64_t, Turn> open_;
  std::map<uint64_t, bool> recalled_;
};

TEST_F(SchedulerLaneLimitTest, BeyondTheLimitTrainingsShareLanesAndInferencesDoNot) {
  make_limited(2);
  for (uint64_t id = 1; id <= 4; ++id) start_as(id, JobClass::training);
  EXPECT_EQ(lanes(), 2u);
  start_as(5, JobClass::best_effort);
  EXPECT_EQ(lanes(), 2u);
  start_as(6, JobClass::inference);
  start_as(7, JobClass::inference);
  EXPECT_EQ(lanes(), 4u);
  EXPECT_EQ(open_.count(6) + open_.count(7), 2u) << "they compute at once";
  start_as(8, JobClass::training);
  EXPECT_EQ(scheduler_->view().lane(job(8).lane)->jobs.size(), 3u) << "in no inference's lane";
  EXPECT_EQ(scheduler_->snapshot().lane_limit, 2u);
}

TEST_F(SchedulerLaneLimitTest, AnIdleLaneOfAnInferenceIsNoWayPastTheLimit) {
  make_limited(1);
  start_as(1, JobClass::inference);
  follow(end_turn(open_.at(1).id, TurnEnd::idle, /*more_ready=*/false));
  open_.erase(1);
  start_as(2, JobClass::training);
  start_as(3, JobClass::training);
  EXPECT_EQ(job(2).lane, job(3).lane);
  EXPECT_NE(job(1).lane, job(2).lane);
}

TEST_F(SchedulerLaneLimitTest, LanesThatDoNotPayBecomeOneAndThePolicySaysWhoGoesFirst) {
  make_limited(2);
  start_as(1, JobClass::training, 10);
  start_as(2, JobClass::training, 30);
  EXPECT_EQ(open_.size(), 2u);
  run_a_trial({{1, 1.0}, {2, 0.5}});
  EXPECT_EQ(scheduler_->lane_limit().lanes(), 1u);
  for (int i = 0; i < 3; ++i) end_a_turn(0.5);
  EXPECT_EQ(lanes(), 1u);
  EXPECT_EQ(scheduler_->snapshot().regions.front().size, units(30)) << "the larger one stays";
  EXPECT_EQ(open_.size(), 1u);
  EXPECT_EQ(open_.count(1), 1u) << "first come, first served, now that they share a lane";
  EXPECT_EQ(job(2).reason.code, ReasonCode::waits_turn);
}

TEST_F(SchedulerLaneLimitTest, LanesThatPayStayAndFurtherOnesOpen) {
  make_limited(1);
  for (uint64_t id = 1; id <= 3; ++id) start_as(id, JobClass::training);
  EXPECT_EQ(lanes(), 1u);
  run_a_trial({{1, 1.0}, {2, 0.9}, {3, 0.8}});
  EXPECT_EQ(scheduler_->lane_limit().lanes(), 3u);
  for (int i = 0; i < 3; ++i) end_a_turn(0.8);
  EXPECT_EQ(lanes(), 3u);
  EXPECT_EQ(open_.size(), 3u);
}

TEST_F(SchedulerLaneLimitTest, WhoWaitsInATrialIsToldForWhom) {
  make_limited(2);
  start_as(1, JobClass::training);
  start_as(2, JobClass::training);
  now_ = scheduler_->next_wakeup();
  follow(send(TimerFired{}));
  EXPECT_EQ(recalled_.size(), 2u) << "turns without a bound say nothing";
  end_a_turn(1);
  ASSERT_EQ(open_.size(), 1u);
  const uint64_t waits = open_.count(1) > 0 ? 2 : 1;
  EXPECT_EQ(job(waits).reason.code, ReasonCode::takes_turns);
  EXPECT_NE(reason_text(job(waits).reason).find("takes turns with that of job"), std::string::npos);
  EXPECT_EQ(job(waits).reason.behind, JobId(3 - waits));
  EXPECT_TRUE(scheduler_->snapshot().lane_trial);
  end_a_turn(1);
  EXPECT_EQ(open_.count(waits), 1u) << "in turns";
  EXPECT_EQ(open_.at(waits).envelope.budget.iterations, 0u);
  EXPECT_EQ(open_.at(waits).envelope.budget.slice, milliseconds(20));
}

TEST_F(SchedulerLaneLimitTest, ALostWorkerOrAPolicyThatSharesNoLanesEndsATrial) {
  make_limited(2);
  start_as(1, JobClass::training);
  start_as(2, JobClass::training);
  now_ = scheduler_->next_wakeup();
  follow(send(TimerFired{}));
  ASSERT_TRUE(scheduler_->lane_limit().trying());
  scheduler_->set_policy(policies::make_policy("fair:share=no").value());
  EXPECT_FALSE(scheduler_->lane_limit().trying());
  EXPECT_EQ(scheduler_->snapshot().lane_limit, std::nullopt);
  scheduler_->set_policy(policies::make_policy("fair").value());
  follow(send(TimerFired{}));
  for (int i = 0; i < 4; ++i) end_a_turn(0.5);
  now_ = std::max(now_, scheduler_->next_wakeup());
  follow(send(TimerFired{}));
  ASSERT_TRUE(scheduler_->lane_limit().trying());
  send(WorkerLost{});
  EXPECT_FALSE(scheduler_->lane_limit().trying());
  EXPECT_EQ(scheduler_->lane_limit().lanes(), 2u);
}

TEST_F(SchedulerLaneLimitTest, JobsOfOtherNumericContextsAreNotTried) {
  make_limited(2);
  start_as(1, JobClass::training);
  start_as(2, JobClass::training, 10, /*context_key=*/7);
  EXPECT_EQ(open_.size(), 1u) << "they never compute at the same time";
  for (int i = 0; i < 200; ++i) {
    end_a_turn(1);
    if (scheduler_->next_wakeup() <= now_) follow(send(TimerFired{}));
    ASSERT_FALSE(scheduler_->lane_limit().trying());
  }
  EXPECT_EQ(scheduler_->lane_limit().lanes(), 2u);
}

TEST_F(SchedulerLaneLimitTest, AJobForEachLaneHasItsOwnUnderAPolicyThatSharesNone) {
  make_limited(1, "fifo:share=no");
  start_as(1, JobClass::training);
  start_as(2, JobClass::training);
  EXPECT_EQ(lanes(), 2u);
  EXPECT_EQ(open_.size(), 2u);
}

TEST_F(SchedulerLaneLimitTest, ACoreThatTakesOverMoreLanesThanItsLimitMakesThemFewer) {
  make_limited(1);
  ReportedJob one = in_pool(away_at(1, 10, {}), 0);
  ReportedJob two = in_pool(away_at(2, 10, {}), 10);
  two.lane = LaneId(2);
  WorkerReport report;
  report.jobs = {one, two};
  report.regions = {{RegionId(1), LaneId(1), units(90), units(10)},
                    {RegionId(2), LaneId(2), units(70), units(20)}};
  const std::vector<Action> actions = send(WorkerReported{report});
  ASSERT_EQ(of<ChangeLane>(actions).size(), 1u);
  EXPECT_EQ(of<ChangeLane>(actions)[0].job, JobId(1));
  EXPECT_EQ(of<ChangeLane>(actions)[0].lane, LaneId(2)) << "whose region is the larger one";
  EXPECT_EQ(lanes(), 1u);
}

}  // namespace
}  // namespace laneway::lanes
