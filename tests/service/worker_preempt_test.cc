// Shows that a more urgent iteration holds up a less urgent one between two nodes and nowhere else,
// that whatever ends meanwhile ends, and that nothing is run twice: iterations stop at gates inside
// of their nodes, so that it is known where each is.
#include <gtest/gtest.h>

#include <thread>

#include "policies/registry.h"
#include "service/worker/common/limits.h"
#include "tests/service/preempt_rig.h"

namespace laneway::service {
namespace {

using lanes::JobState;
using testing::PreemptRig;

constexpr size_t kFirstWrite = 2;
constexpr size_t kNodes = 4;

// The job's answer: success, and its state is what was counted.
void expect_done(const std::shared_ptr<Work>& work, const PreemptRig::GatedJob& job) {
  const std::optional<Status> done = work->wait(Duration(-1));
  ASSERT_TRUE(*done) << done->error().message;
  std::vector<float> output(PreemptRig::kCount);
  const lanes::OutputView room{.data = output.data(), .bytes = output.size() * sizeof(float)};
  ASSERT_TRUE(work->copy_outputs({&room, 1}));
  EXPECT_EQ(output, std::vector<float>(output.size(), job.expected));
}

bool is_done(const std::shared_ptr<Work>& work) { return work->wait(Duration()).has_value(); }

// A training iteration inside of node `node`, and an urgent one at work in another lane.
class Preempted : public ::testing::Test {
 protected:
  void interrupt_at(size_t node, int32_t priority = 5) {
    training_.gate->stop_at(node);
    iteration_ = rig_.submit(training_);
    training_.gate->wait_reached();
    urgent_ = rig_.add_job("urgent", priority);
    urgent_.gate->stop_at(0);
    request_ = rig_.submit(urgent_);
    urgent_.gate->wait_reached();
    runs_before_ = training_.gate->runs(node + 1);
  }
  void pause_at(size_t node) {
    interrupt_at(node);
    training_.gate->go_on();
    rig_.wait_state(training_, JobState::paused);
  }

  PreemptRig rig_;
  PreemptRig::GatedJob training_ = rig_.add_job("training", 0);
  PreemptRig::GatedJob urgent_;
  std::shared_ptr<Work> iteration_;
  std::shared_ptr<Work> request_;
  uint64_t runs_before_ = 0;
};

TEST_F(Preempted, IsHeldBetweenTwoNodesAndGoesOnWithoutRunningOneTwice) {
  pause_at(0);
  EXPECT_EQ(training_.gate->runs(1), runs_before_) << "the next node waits";
  EXPECT_FALSE(is_done(iteration_));
  const lanes::JobStatus paused = rig_.status(training_);
  EXPECT_EQ(paused.pauses, 1U);
  EXPECT_EQ(paused.paused, Duration()) << "it is not over yet";
  EXPECT_EQ(rig_.status(urgent_).state, JobState::running);
  const Duration held = milliseconds(7);
  rig_.clock().advance(held);
  urgent_.gate->go_on();
  expect_done(request_, urgent_);
  expect_done(iteration_, training_);
  for (size_t node = 0; node < kNodes; ++node) {
    EXPECT_EQ(training_.gate->runs(node), 3U) << "two before, and this one: node " << node;
  }
  rig_.wait_state(training_, JobState::running);
  EXPECT_EQ(rig_.status(training_).paused, held) << "on the worker's clock";
}

TEST_F(Preempted, HeldTimeIsNoneOfTheTurns) {
  pause_at(0);
  rig_.clock().advance(milliseconds(50));
  urgent_.gate->go_on();
  expect_done(iteration_, training_);
  rig_.worker().close_job(training_.job);
  // The clock stood still but for the time in which it was held.
  EXPECT_EQ(rig_.status(training_).device_time, Duration());
  EXPECT_EQ(rig_.status(urgent_).device_time, Duration());
}

TEST_F(Preempted, IsNeverHeldInItsCommitPhase) {
  interrupt_at(kFirstWrite);
  training_.gate->go_on();
  expect_done(iteration_, training_);
  EXPECT_FALSE(is_done(request_));
}

TEST_F(Preempted, IsHeldBeforeTheNodeThatWritesFirst) {
  pause_at(kFirstWrite - 1);
  EXPECT_EQ(training_.gate->runs(kFirstWrite), 2U);
  urgent_.gate->go_on();
  expect_done(iteration_, training_);
}

TEST_F(Preempted, NotByAJobOfTheSamePriority) {
  interrupt_at(0, /*priority=*/0);
  training_.gate->go_on();
  expect_done(iteration_, training_);
  EXPECT_FALSE(is_done(request_));
}

TEST_F(Preempted, AnIterationThatBeginsMeanwhileWaitsBeforeItsFirstNode) {
  urgent_ = rig_.add_job("urgent", 1);
  iteration_ = rig_.submit(training_);
  expect_done(iteration_, training_);  // both turns are open
  urgent_.gate->stop_at(1);
  request_ = rig_.submit(urgent_);
  urgent_.gate->wait_reached();
  const uint64_t runs = training_.gate->runs(0);
  iteration_ = rig_.submit(training_);
  rig_.wait_state(training_, JobState::paused);
  EXPECT_EQ(training_.gate->runs(0), runs);
  urgent_.gate->go_on();
  expect_done(iteration_, training_);
}

// Its own client, `laneway kill` and the end of the service come this way.
TEST_F(Preempted, TheHeldJobMayBeClosedMeanwhile) {
  pause_at(0);
  rig_.worker().close_job(training_.job);
  const Status answer = *iteration_->wait(Duration(-1));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::cancelled) << answer.error().message;
  EXPECT_FALSE(is_done(request_)) << "whoever interrupted it goes on";
  EXPECT_EQ(training_.gate->runs(1), runs_before_);
  urgent_.gate->go_on();
  expect_done(request_, urgent_);
}

TEST_F(Preempted, GoesOnWhenTheInterruptingJobIsClosed) {
  pause_at(0);
  std::thread closes([&] { rig_.worker().close_job(urgent_.job); });
  urgent_.gate->go_on();
  expect_done(iteration_, training_);
  closes.join();
}

// The one in the middle is held by the first, and holds the last up no longer meanwhile, which the
// first does itself.
TEST_F(Preempted, UrgencyHasManyLevels) {
  pause_at(0);
  PreemptRig::GatedJob most = rig_.add_job("most urgent", 9);
  most.gate->stop_at(3);
  const auto first = rig_.submit(most);
  most.gate->wait_reached();
  urgent_.gate->go_on();
  rig_.wait_state(urgent_, JobState::paused);
  EXPECT_EQ(rig_.status(training_).state, JobState::paused);
  EXPECT_EQ(urgent_.gate->runs(1), 2U);
  most.gate->go_on();
  expect_done(first, most);
  expect_done(request_, urgent_);
  expect_done(iteration_, training_);
}

// The bound of a pause: the interrupter never ends, and the iteration completes beside it.
TEST_F(Preempted, InterruptersWithoutEndHoldAnIterationForItsBoundOnly) {
  pause_at(0);
  rig_.clock().advance(limits::kLeastPause);
  expect_done(iteration_, training_);
  EXPECT_FALSE(is_done(request_));
  EXPECT_EQ(rig_.status(training_).paused, limits::kLeastPause);
  // The next one has a bound of its own.
  const auto next = rig_.submit(training_);
  rig_.wait_state(training_, JobState::paused);
  rig_.clock().advance(limits::kLeastPause);
  expect_done(next, training_);
  EXPECT_FALSE(is_done(request_));
}

// What a device replays runs to its end.
TEST_F(Preempted, NothingIsReplayedWhileAnUrgentTurnIsOpen) {
  iteration_ = rig_.submit(training_);
  expect_done(iteration_, training_);
  EXPECT_TRUE(training_.gate->may_replay());
  urgent_ = rig_.add_job("urgent", 5);
  iteration_ = rig_.submit(training_);
  expect_done(iteration_, training_);
  EXPECT_FALSE(training_.gate->may_replay());
  EXPECT_TRUE(urgent_.gate->may_replay()) << "nobody interrupts it";
}

// A worker that reports while a pause is open, and the core that is made from it.
TEST_F(Preempted, AReportSaysSo) {
  pause_at(0);
  lanes::SchedulerConfig config;
  config.capacity = mib(16);
  lanes::Scheduler next(config, policies::make_policy("fifo").value());
  next.handle(TimePoint(1), lanes::WorkerReported{rig_.worker().report()});
  const auto state = [&] {
    for (const lanes::JobStatus& job : next.snapshot().jobs) {
      if (job.id == training_.job->id) return job.state;
    }
    return JobState::failed;
  };
  EXPECT_EQ(state(), JobState::paused);
  urgent_.gate->go_on();
  expect_done(iteration_, training_);
  for (const lanes::Event& event : rig_.events()) {
    if (std::holds_alternative<lanes::TurnResumed>(event)) next.handle(TimePoint(2), event);
  }
  EXPECT_EQ(state(), JobState::running);
}

// Both in one lane: the less urgent iteration is given up, or runs to its end.
class InOneLane : public ::testing::Test {
 protected:
  // The training stops inside of node `node`; then the urgent job asks, and the training goes on.
  void interrupt_at(size_t node) {
    if (iteration_ == nullptr) {
      training_.gate->stop_at(node);
      iteration_ = rig_.submit(training_);
    }
    training_.gate->wait_reached();
    request_ = rig_.submit(urgent_);
    training_.gate->go_on();
  }

  PreemptRig rig_{1};
  PreemptRig::GatedJob training_ = rig_.add_job("training", 0);
  PreemptRig::GatedJob urgent_ = rig_.add_job("urgent", 5);
  std::shared_ptr<Work> iteration_;
  std::shared_ptr<Work> request_;
};

TEST_F(InOneLane, AnIterationIsGivenUpBeforeItWritesAndRunsAgain) {
  urgent_.gate->stop_at(0);
  interrupt_at(0);
  urgent_.gate->wait_reached();
  EXPECT_EQ(training_.gate->runs(0), 3U);
  EXPECT_EQ(training_.gate->runs(1), 2U) << "it went no further";
  EXPECT_FALSE(is_done(iteration_));
  urgent_.gate->go_on();
  expect_done(request_, urgent_);
  expect_done(iteration_, training_);
  EXPECT_EQ(training_.gate->runs(0), 4U) << "one node was run twice";
  rig_.worker().close_job(training_.job);
  EXPECT_EQ(rig_.status(training_).abandoned, 1U);
}

TEST_F(InOneLane, AnIterationThatWritesEndsFirst) {
  interrupt_at(kFirstWrite);
  expect_done(iteration_, training_);
  expect_done(request_, urgent_);
  EXPECT_EQ(training_.gate->runs(0), 3U);
}

TEST_F(InOneLane, OneRequestIsGivenUpAFewTimesOnly) {
  for (const int request : {1, 2}) {
    training_.gate->stop_at(0);
    iteration_ = rig_.submit(training_);
    for (uint32_t i = 0; i < limits::kMostAbandons; ++i) {
      training_.gate->wait_reached();
      request_ = rig_.submit(urgent_);
      training_.gate->let_one_pass();
      expect_done(request_, urgent_);
      EXPECT_FALSE(is_done(iteration_)) << "request " << request;
    }
    interrupt_at(0);
    expect_done(iteration_, training_);
    expect_done(request_, urgent_);
  }
  EXPECT_EQ(training_.gate->runs(0), 2U + 2 * (limits::kMostAbandons + 1));
  EXPECT_EQ(training_.gate->runs(kNodes - 1), 2U + 2);
}

// The graph is known to take half a millisecond: nobody is given up for so little.
TEST_F(InOneLane, AnIterationOfWhichLittleIsLeftEndsFirst) {
  training_.gate->stop_at(0);
  const auto usual = rig_.submit(training_);
  training_.gate->wait_reached();
  rig_.clock().advance(microseconds(500));
  training_.gate->go_on();
  expect_done(usual, training_);
  interrupt_at(0);
  expect_done(iteration_, training_);
  expect_done(request_, urgent_);
  EXPECT_EQ(training_.gate->runs(0), 4U);
}

}  // namespace
}  // namespace laneway::service
