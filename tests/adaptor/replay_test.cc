// Shows which iterations are recorded and replayed: after enough planned ones with equal keys, as
// long as the key holds, by a thread that ran them before, and never once a device could not record
// the graph.
#include "adaptor/run/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "adaptor/device/limits.h"

namespace laneway::adaptor {
namespace {

using Way = ReplayControl::Way;

ReplayKey key_of(uint64_t number) {
  static const auto plan = std::make_shared<const memory::PlannedTape>();
  ReplayKey key;
  key.plan = plan;
  key.numbers = {number};
  return key;
}

// One iteration that is completed.
Way run(ReplayControl& control, std::optional<ReplayKey> key) {
  const Way way = control.begin(std::move(key));
  control.completed();
  return way;
}

void run_plainly(ReplayControl& control, uint64_t number) {
  for (uint32_t i = 0; i < limits::kReplayAfter; ++i) {
    ASSERT_EQ(run(control, key_of(number)), Way::plain);
  }
}

TEST(ReplayControl, RecordsOnceAndThenReplays) {
  ReplayControl control;
  run_plainly(control, 1);
  EXPECT_EQ(run(control, key_of(1)), Way::record);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(control, key_of(1)), Way::replay);
}

TEST(ReplayControl, AnotherKeyRunsPlainlyAndCountsAgain) {
  ReplayControl control;
  run_plainly(control, 1);
  EXPECT_EQ(run(control, key_of(1)), Way::record);
  EXPECT_EQ(run(control, key_of(2)), Way::plain);
  EXPECT_EQ(run(control, key_of(1)), Way::replay) << "what was recorded still holds";
  for (uint32_t i = 1; i < limits::kReplayAfter; ++i) run(control, key_of(2));
  EXPECT_EQ(run(control, key_of(2)), Way::record);
  EXPECT_EQ(run(control, key_of(2)), Way::replay);
  EXPECT_EQ(run(control, key_of(1)), Way::plain) << "there is one recording";
}

TEST(ReplayControl, AThreadRecordsWhatItRanBeforeAndReplaysWhatAnotherRecorded) {
  ReplayControl control;
  run_plainly(control, 1);
  std::thread([&] {
    EXPECT_EQ(run(control, key_of(1)), Way::plain);
    EXPECT_EQ(run(control, key_of(1)), Way::record);
  }).join();
  EXPECT_EQ(run(control, key_of(1)), Way::replay);
}

// A client's own thread and its lane's, in turns: neither ever runs two in a row.
TEST(ReplayControl, ThreadsThatTakeTurnsRecordToo) {
  ReplayControl control;
  const auto run_elsewhere = [&] {
    Way way = Way::replay;
    std::thread other([&] { way = run(control, key_of(1)); });
    other.join();
    return way;
  };
  for (uint32_t i = 0; i < limits::kReplayAfter; ++i) {
    EXPECT_EQ(i % 2 == 0 ? run(control, key_of(1)) : run_elsewhere(), Way::plain);
  }
  // Every time another thread, which never ran it.
  for (size_t i = 0; i < limits::kReplayThreads - 1; ++i) EXPECT_EQ(run_elsewhere(), Way::plain);
  EXPECT_EQ(run(control, key_of(1)), Way::record);
}

TEST(ReplayControl, OfTooManyThreadsThoseThatRanItLatelyRecord) {
  ReplayControl control;
  run_plainly(control, 1);
  for (size_t i = 0; i < limits::kReplayThreads; ++i) {
    std::thread([&] { EXPECT_EQ(run(control, key_of(1)), Way::plain); }).join();
  }
  EXPECT_EQ(run(control, key_of(1)), Way::plain);
  EXPECT_EQ(run(control, key_of(1)), Way::record);
}

// What a thread made for other addresses is none for these.
TEST(ReplayControl, AnotherKeyIsRecordedByAThreadThatRanThatOne) {
  ReplayControl control;
  run_plainly(control, 1);
  std::thread([&] { run_plainly(control, 2); }).join();
  EXPECT_EQ(run(control, key_of(2)), Way::plain);
  EXPECT_EQ(run(control, key_of(2)), Way::record);
}

TEST(ReplayControl, IterationsWithoutAPlanCountForNothing) {
  ReplayControl control;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(run(control, std::nullopt), Way::plain);
  run(control, key_of(1));
  run(control, std::nullopt);
  run_plainly(control, 1);
  EXPECT_EQ(run(control, key_of(1)), Way::record);
}

// While its image comes back, say. A job that leaves after every second request is recorded too.
TEST(ReplayControl, IterationsThatMustRunPlainlyBetweenOthersChangeNothing) {
  ReplayControl control;
  for (uint32_t i = 0; i < limits::kReplayAfter; ++i) {
    EXPECT_EQ(run(control, key_of(1)), Way::plain);
    control.begin_plainly();
    control.completed();
  }
  EXPECT_EQ(run(control, key_of(1)), Way::record);
  control.begin_plainly();
  control.completed();
  EXPECT_EQ(run(control, key_of(1)), Way::replay);
}

TEST(ReplayControl, WhatExistsMayBeReplayedWhereNothingIsRecorded) {
  ReplayControl control;
  const auto run_existing = [&](const std::optional<ReplayKey>& key) {
    const Way way = control.begin_existing(key);
    control.completed();
    return way;
  };
  for (uint32_t i = 0; i <= limits::kReplayAfter; ++i) {
    EXPECT_EQ(run_existing(key_of(1)), Way::plain) << "it counts for nothing";
  }
  run_plainly(control, 1);
  EXPECT_EQ(run_existing(key_of(1)), Way::plain) << "the next one would be recorded";
  EXPECT_EQ(run(control, key_of(1)), Way::record);
  EXPECT_EQ(run_existing(key_of(1)), Way::replay);
  EXPECT_EQ(run_existing(key_of(2)), Way::plain);
  EXPECT_EQ(run_existing(std::nullopt), Way::plain);
  EXPECT_EQ(run(control, key_of(1)), Way::replay) << "what was recorded is still there";
  control.refuse();
  EXPECT_EQ(run_existing(key_of(1)), Way::plain);
}

TEST(ReplayControl, ARecordingThatIsGivenUpIsMadeAgain) {
  ReplayControl control;
  run_plainly(control, 1);
  ASSERT_EQ(control.begin(key_of(1)), Way::record);
  control.given_up();
  EXPECT_EQ(run(control, key_of(1)), Way::record);
  ASSERT_EQ(control.begin(key_of(1)), Way::replay);
  control.given_up();
  EXPECT_EQ(run(control, key_of(1)), Way::replay) << "what was recorded is still there";
}

TEST(ReplayControl, ARefusedGraphRunsPlainlyForEver) {
  ReplayControl control;
  run_plainly(control, 1);
  ASSERT_EQ(control.begin(key_of(1)), Way::record);
  control.refuse();
  control.completed();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(run(control, key_of(1)), Way::plain);
}

// An iteration that is to be recorded, and whose recording is spoilt: it runs node by node.
bool spoil_next(ReplayControl& control, uint64_t number) {
  while (control.begin(key_of(number)) == Way::plain) control.completed();
  const bool again = control.spoilt();
  control.completed();
  return again;
}

TEST(ReplayControl, ASpoiltRecordingIsMadeAgainAfterAsManyIterationsAsAtFirst) {
  ReplayControl control;
  EXPECT_TRUE(spoil_next(control, 1));
  for (uint32_t i = 1; i < limits::kReplayAfter; ++i)
    EXPECT_EQ(run(control, key_of(1)), Way::plain);
  EXPECT_EQ(run(control, key_of(1)), Way::record);
  EXPECT_EQ(run(control, key_of(1)), Way::replay);
}

TEST(ReplayControl, OnlySpoiltRecordingsInARowCount) {
  ReplayControl control;
  for (const uint64_t number : {1, 2, 3}) {
    for (uint32_t i = 0; i < limits::kRecordAgain; ++i) EXPECT_TRUE(spoil_next(control, number));
    while (run(control, key_of(number)) != Way::record) continue;
    EXPECT_EQ(run(control, key_of(number)), Way::replay);
  }
  for (uint32_t i = 0; i < limits::kRecordAgain; ++i) EXPECT_TRUE(spoil_next(control, 4));
  EXPECT_FALSE(spoil_next(control, 4));
}

TEST(ReplayKey, EveryPartOfItCounts) {
  const ReplayKey key = key_of(1);
  const std::byte other{};
  ReplayKey changed = key;
  changed.plan = std::make_shared<const memory::PlannedTape>();
  EXPECT_NE(changed, key);
  changed = key;
  changed.lane = &other;
  EXPECT_NE(changed, key);
  changed = key;
  changed.lane_number = 1;
  EXPECT_NE(changed, key);
  changed = key;
  changed.image = &other;
  EXPECT_NE(changed, key);
  changed = key;
  changed.state_epoch = 2;
  EXPECT_NE(changed, key);
  EXPECT_NE(key_of(2), key);
  EXPECT_EQ(key_of(1), key);
}

}  // namespace
}  // namespace laneway::adaptor
