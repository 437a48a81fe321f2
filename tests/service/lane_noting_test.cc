// What a lane's notes say is of the work that it does now, and of no other.
#include "service/worker/common/lane_noting.h"

#include <gtest/gtest.h>

#include <utility>

namespace laneway::service {
namespace {

TEST(LaneNoting, ANodeIsOfTheIterationThatRuns) {
  LaneNotes notes{};
  LaneNoting noting(&notes);
  noting.begin(LaneDoing::iterating, JobId(1), 4, milliseconds(3));
  EXPECT_EQ(notes.node.load(), kNoNode) << "none has begun";
  noting.node(40);
  EXPECT_EQ(notes.node.load(), 40U);
  EXPECT_EQ(notes.graph.load(), 4U);
  EXPECT_EQ(notes.bound_ms.load(), 3U);
  noting.end();
  noting.begin(LaneDoing::copying, JobId(2));
  EXPECT_EQ(notes.job.load(), 2U);
  EXPECT_EQ(notes.node.load(), kNoNode) << "the other job's node is none of this one's";
}

TEST(LaneNoting, ACopyBetweenNodesIsAtNone) {
  LaneNotes notes{};
  LaneNoting noting(&notes);
  noting.begin(LaneDoing::iterating, JobId(1));
  noting.node(7);
  noting.change(LaneDoing::snapshotting);
  EXPECT_EQ(notes.node.load(), kNoNode);
}

TEST(LaneNoting, EachNoteShowsProgress) {
  LaneNotes notes{};
  LaneNoting noting(&notes);
  uint64_t before = notes.steps.load();
  const auto grew = [&] { return notes.steps.load() > std::exchange(before, notes.steps.load()); };
  noting.begin(LaneDoing::iterating, JobId(1));
  EXPECT_TRUE(grew());
  noting.node(0);
  EXPECT_TRUE(grew());
  noting.change(LaneDoing::planning);
  EXPECT_TRUE(grew());
}

TEST(LaneNoting, WithoutAJournalNothingIsNoted) {
  LaneNoting noting(nullptr);
  noting.begin(LaneDoing::iterating, JobId(1));
  noting.node(3);
  noting.end();
}

}  // namespace
}  // namespace laneway::service
