// Shows that an iteration runs behind its arriving image: no node before its bytes, no write and no
// output before the whole; that waits are told and counted; and that an image which never comes
// ends the iteration without a trace.
#include "service/worker/run/arriving_runner.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "lanes/run/executor.h"
#include "tests/service/no_graph.h"
#include "tests/service/plain_lane.h"
#include "tests/support/synthetic_device.h"

namespace laneway::service {
namespace {

// Notes what was there of the image when each step ran.
class SeeingRunner final : public lanes::GraphRunner {
 public:
  SeeingRunner(const pipeline::ImageArrival& arrival, std::array<Bytes, 4> needs)
      : arrival_(arrival), needs_(needs) {}

  size_t node_count() const override { return 3; }
  size_t first_write() const override { return 2; }
  Status begin(std::span<const lanes::InputView> /*inputs*/) override { return {}; }
  lanes::NodeOutcome run_node(size_t index) override {
    too_early_ = too_early_ || !arrival_.has(needs_[index]) ||
                 (index >= first_write() && !arrival_.is_whole());
    ++ran_;
    return lanes::NodeOutcome::done;
  }
  Status finish(std::span<const lanes::OutputView> /*outputs*/) override {
    too_early_ = too_early_ || !arrival_.is_whole();
    ++ran_;
    return {};
  }
  void abandon() override { abandoned_ = true; }
  const Error& last_error() const override { return none_; }

  int ran() const { return ran_; }
  bool too_early() const { return too_early_; }
  bool abandoned() const { return abandoned_; }

 private:
  const pipeline::ImageArrival& arrival_;
  const std::array<Bytes, 4> needs_;
  const Error none_{ErrorCode::internal, "none"};
  int ran_ = 0;
  bool too_early_ = false;
  bool abandoned_ = false;
};

// Notes what its work waits for.
class NotingLane final : public testing::PlainLane {
 public:
  using PlainLane::PlainLane;
  Status wait_for(memory::Event& event) override {
    waited_for.push_back(&event);
    return answer ? StreamLane::wait_for(event) : answer;
  }
  std::vector<memory::Event*> waited_for;
  Status answer;
};

class Hooks final : public lanes::ExecutorHooks {
 public:
  void pause(size_t /*node*/) override {}
  lanes::CommitDecision enter_commit_phase(size_t /*node*/) override {
    return runner->may_write() ? lanes::CommitDecision::go : lanes::CommitDecision::cancel;
  }
  ArrivingRunner* runner = nullptr;
};

constexpr std::array<Bytes, 4> kNeeds = {Bytes(10), Bytes(20), Bytes(30), Bytes(30)};

class ImageArrivalTest : public ::testing::Test {
 protected:
  lanes::IterationReport run() {
    Hooks hooks;
    ArrivingRunner arriving(runner_, lane_, image_);
    hooks.runner = &arriving;
    lanes::ControlWord word;
    return lanes::Executor(arriving, word, hooks).run({}, {});
  }

  SteadyClock clock_;
  memory::SyntheticDevice device_;
  NotingLane lane_{device_, device_.create_stream().value(), clock_};
  pipeline::ImageArrival arrival_;
  SeeingRunner runner_{arrival_, kNeeds};
  int waits_ = 0;
  int begun_ = 0;
  int writes_ = 0;
  ArrivingImage image_{.arrival = arrival_,
                       .needs = kNeeds,
                       .before_writes = [this] { ++writes_; },
                       .on_wait =
                           [this](bool waits) {
                             waits_ += waits ? 1 : -1;
                             begun_ += waits ? 1 : 0;
                             EXPECT_TRUE(waits_ == 0 || waits_ == 1);
                           },
                       .clock = clock_};
};

TEST_F(ImageArrivalTest, WhatIsThereIsNotWaitedFor) {
  EXPECT_TRUE(arrival_.is_whole());
  EXPECT_EQ(run().outcome, lanes::IterationOutcome::completed);
  EXPECT_EQ(begun_, 0);
  EXPECT_EQ(writes_, 1);
  EXPECT_EQ(image_.waited, Duration());
}

TEST_F(ImageArrivalTest, EveryStepWaitsForItsBytes) {
  arrival_.begin();
  std::thread copier([this] {
    for (int64_t bytes = 1; bytes <= 30; ++bytes) {
      arrival_.advance(Bytes(bytes));
      std::this_thread::yield();
    }
    arrival_.finish(true);
  });
  const lanes::IterationReport report = run();
  copier.join();
  EXPECT_EQ(report.outcome, lanes::IterationOutcome::completed);
  EXPECT_EQ(runner_.ran(), 4);
  EXPECT_FALSE(runner_.too_early());
  EXPECT_EQ(waits_, 0);
  EXPECT_EQ(writes_, 1);
}

TEST_F(ImageArrivalTest, AllBytesAreNotYetTheWhole) {
  arrival_.begin();
  arrival_.advance(Bytes(30));
  // It waits for the whole, once, before it writes.
  std::thread copier;
  const auto counted = image_.on_wait;
  image_.on_wait = [&](bool waits) {
    counted(waits);
    if (waits) copier = std::thread([this] { arrival_.finish(true); });
  };
  EXPECT_EQ(run().outcome, lanes::IterationOutcome::completed);
  ASSERT_TRUE(copier.joinable());
  copier.join();
  EXPECT_EQ(begun_, 1);
  EXPECT_FALSE(runner_.too_early())
      << "written or answered before the bytes were known to be right";
}

TEST_F(ImageArrivalTest, AnImageThatDoesNotComeEndsTheIteration) {
  for (const int64_t arrived : {0, 15, 30}) {
    arrival_.begin();
    arrival_.advance(Bytes(arrived));
    std::thread copier([this] { arrival_.finish(false); });
    const lanes::IterationReport report = run();
    copier.join();
    EXPECT_NE(report.outcome, lanes::IterationOutcome::completed);
    EXPECT_NE(report.outcome, lanes::IterationOutcome::failed_in_commit);
    EXPECT_TRUE(runner_.abandoned());
  }
  EXPECT_EQ(writes_, 0);
}

// Pieces that a device copies by itself: the CPU waits for none of them, the lane's stream for each
// that a node needs, once; only the commit phase and the answer wait for the whole.
TEST_F(ImageArrivalTest, OnADeviceTheLanesWorkWaitsInItsOrder) {
  const auto pool = device_.allocate_pool(kib(4)).value();
  const std::vector<std::byte> bytes(30, std::byte{7});
  const auto copies = device_.create_stream().value();
  std::vector<std::shared_ptr<memory::Event>> events;
  arrival_.begin();
  for (const int64_t end : {5, 12, 25, 30}) {
    std::shared_ptr<memory::Event> there = device_.create_event().value();
    ASSERT_TRUE(copies->copy_to_device(pool->data(), bytes.data(), Bytes(end)).ok());
    ASSERT_TRUE(copies->record(*there).ok());
    events.push_back(there);
    arrival_.advance(Bytes(end), there);
  }
  // Its waits are for the whole, and the two nodes before them need none.
  const auto counted = image_.on_wait;
  image_.on_wait = [&](bool waits) {
    counted(waits);
    if (!waits) return;
    EXPECT_EQ(runner_.ran(), 2);
    EXPECT_EQ(lane_.waited_for, (std::vector{events[1].get(), events[2].get()}))
        << "10 bytes come with the second piece, 20 with the third";
    EXPECT_EQ(events[1]->query(), memory::EventState::pending) << "the CPU has waited for a piece";
    EXPECT_FALSE(device_.run_one(lane_.stream())) << "nodes would run ahead of their bytes";
    arrival_.finish(true);
  };
  EXPECT_EQ(run().outcome, lanes::IterationOutcome::completed);
  EXPECT_EQ(begun_, 1);
  EXPECT_EQ(lane_.waited_for.size(), 2U) << "what is whole is waited for by nobody";
  EXPECT_EQ(arrival_.coming(Bytes(30)).there, nullptr);
}

// A graph of which a recording may exist. Nothing else is asked of it.
class RecordedGraph final : public testing::NoGraph {
 public:
  explicit RecordedGraph(bool replays) : replays_(replays) {}
  bool replays() const override { return replays_; }

 private:
  const bool replays_;
};

// What a recording stands for runs with its first node, or behind it: nothing runs before.
TEST_F(ImageArrivalTest, ARecordingWaitsForAllOfItsBytes) {
  for (const bool replays : {false, true}) {
    const RecordedGraph graph(replays);
    image_.recorded = &graph;
    begun_ = 0;
    arrival_.begin();
    arrival_.advance(Bytes(20));
    const int ran_before = runner_.ran();
    std::thread copier;
    const auto counted = image_.on_wait;
    image_.on_wait = [&](bool waits) {
      counted(waits);
      if (!waits) return;
      EXPECT_EQ(runner_.ran() - ran_before, replays ? 0 : 2);
      copier = std::thread([this] { arrival_.finish(true); });
    };
    EXPECT_EQ(run().outcome, lanes::IterationOutcome::completed);
    ASSERT_TRUE(copier.joinable());
    copier.join();
    image_.on_wait = counted;
    EXPECT_EQ(begun_, 1);
    EXPECT_FALSE(runner_.too_early());
  }
}

// On a device its launch waits in the lane's order, for the last piece.
TEST_F(ImageArrivalTest, OnADeviceTheLaunchWaitsForTheLastPiece) {
  const RecordedGraph graph(true);
  image_.recorded = &graph;
  arrival_.begin();
  std::vector<std::shared_ptr<memory::Event>> events;
  for (const int64_t end : {12, 25, 30}) {
    events.push_back(device_.create_event().value());
    arrival_.advance(Bytes(end), events.back());
  }
  const auto counted = image_.on_wait;
  image_.on_wait = [&](bool waits) {
    counted(waits);
    if (!waits) return;
    EXPECT_EQ(lane_.waited_for, std::vector{events.back().get()});
    arrival_.finish(true);
  };
  EXPECT_EQ(run().outcome, lanes::IterationOutcome::completed);
  EXPECT_EQ(begun_, 1) << "the commit phase waits for the whole, and nothing else";
}

TEST_F(ImageArrivalTest, ADeviceThatFailsEndsTheIteration) {
  lane_.answer = Error{ErrorCode::device_lost, "it is gone"};
  arrival_.begin();
  arrival_.advance(Bytes(30), device_.create_event().value());
  image_.on_wait = [this](bool) { arrival_.finish(true); };  // which it must not come to
  const lanes::IterationReport report = run();
  EXPECT_EQ(report.outcome, lanes::IterationOutcome::failed_clean);
  EXPECT_EQ(report.error.message, "it is gone");
  EXPECT_EQ(runner_.ran(), 0);
  EXPECT_TRUE(runner_.abandoned());
}

}  // namespace
}  // namespace laneway::service
