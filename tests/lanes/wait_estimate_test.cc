// Holds the guess of how long a job waits against cases that were worked out by hand. Sizes are
// bytes, an iteration takes 1 s.
#include "lanes/core/wait_estimate.h"

#include <gtest/gtest.h>

namespace laneway::lanes {
namespace {

class WaitEstimate : public testing::Test {
 protected:
  WaitEstimate() { now_.capacity = Bytes(100); }

  JobStatus& add(uint64_t id, int64_t persistent, int64_t ephemeral) {
    JobStatus job;
    job.id = JobId(id);
    job.persistent = Bytes(persistent);
    job.ephemeral = Bytes(ephemeral);
    now_.jobs.push_back(job);
    return now_.jobs.back();
  }
  // In a lane, with so many seconds of its own work left.
  JobStatus& runs(uint64_t id, int64_t persistent, int64_t ephemeral, uint64_t lane,
                  uint64_t left) {
    JobStatus& job = add(id, persistent, ephemeral);
    job.state = JobState::resident;
    job.lane = LaneId(lane);
    job.iterations = 10;
    job.options.total_iterations = 10 + left;
    job.device_time = seconds(10);
    now_.claimed += Bytes(persistent);
    return job;
  }
  void region(uint64_t lane, int64_t size) {
    now_.regions.push_back({RegionId(lane), LaneId(lane), Bytes(0), Bytes(size)});
    now_.claimed += Bytes(size);
  }
  void waits(uint64_t id, int64_t persistent, int64_t ephemeral, uint32_t position,
             ReasonCode code = ReasonCode::pool_full) {
    JobStatus& job = add(id, persistent, ephemeral);
    job.reason.code = code;
    job.reason.position = position;
  }
  // Images lie from the low end up in the order of their jobs, regions from the high end down.
  void lay_out() {
    now_.pool.clear();
    Bytes low;
    Bytes high = now_.capacity;
    for (const JobStatus& job : now_.jobs) {
      if (!job.lane.valid()) continue;
      piece(PieceKind::image, low, job.persistent).job = job.id;
      low += job.persistent;
    }
    for (const RegionStatus& region : now_.regions) {
      high = high - region.size;
      piece(PieceKind::region, high, region.size).lane = region.lane;
    }
    piece(PieceKind::free, low, high - low);
  }
  PoolPiece& piece(PieceKind kind, Bytes offset, Bytes size) {
    PoolPiece piece;
    piece.kind = kind;
    piece.offset = offset;
    piece.size = size;
    return now_.pool.emplace_back(piece);
  }
  double estimate(uint64_t id) {
    lay_out();
    const auto wait = estimate_wait(now_, JobId(id));
    return wait ? wait->seconds() : -1.0;
  }

  Snapshot now_;
};

TEST_F(WaitEstimate, GoesByThePaceWhereTheClientIsTheSlowerPart) {
  runs(1, 40, 20, 1, 30).pace = seconds(4);
  region(1, 20);
  waits(2, 60, 5, 1);
  EXPECT_DOUBLE_EQ(estimate(2), 120.0);
  now_.jobs[0].pace = milliseconds(500);
  EXPECT_DOUBLE_EQ(estimate(2), 30.0) << "it cannot be faster than its device time";
}

TEST_F(WaitEstimate, TakesThePaceOfASharedLaneForWhatItIs) {
  runs(1, 40, 20, 1, 10).pace = seconds(2);  // 1 s of its own, 1 s of the other's
  runs(2, 40, 20, 1, 10).pace = seconds(2);
  region(1, 20);
  waits(3, 60, 5, 1);
  EXPECT_DOUBLE_EQ(estimate(3), 20.0);
}

TEST_F(WaitEstimate, IsTheEndOfTheJobWhoseMemoryIsNeeded) {
  runs(1, 40, 20, 1, 30);
  runs(2, 10, 10, 2, 5);
  region(1, 20);
  region(2, 10);        // claimed 80, free 20
  waits(3, 30, 5, 1);   // 35: needs 15 more, which job 2's 20 give
  waits(4, 30, 10, 2);  // 75 in all: needs 55 more: both
  EXPECT_DOUBLE_EQ(estimate(3), 5.0);
  EXPECT_DOUBLE_EQ(estimate(4), 30.0);
}

TEST_F(WaitEstimate, JobsOfOneLaneShareItsTime) {
  runs(1, 40, 20, 1, 10);
  runs(2, 20, 30, 1, 4);
  region(1, 30);  // claimed 90
  // Job 2 ends after 8 s (4 of its own and 4 of the other), which frees 20 and shrinks the region
  // by 10; job 1 ends at 14 s, when all of both is done.
  waits(3, 30, 10, 1);  // 40: exactly what is free at 8 s
  waits(4, 1, 1, 2);
  EXPECT_DOUBLE_EQ(estimate(3), 8.0);
  EXPECT_DOUBLE_EQ(estimate(4), 14.0);
}

TEST_F(WaitEstimate, IsUnknownWhenItDependsOnWhatIsNotKnown) {
  runs(2, 10, 10, 2, 5).options.total_iterations = 0;  // goes on for ever, as far as is known
  runs(1, 40, 20, 1, 30);
  region(2, 10);
  region(1, 20);
  waits(3, 60, 15, 1);  // 75: 20 free and job 1's 60 suffice, and lie side by side
  waits(4, 5, 5, 2);    // 85: needs job 2 as well
  EXPECT_DOUBLE_EQ(estimate(3), 30.0);
  EXPECT_DOUBLE_EQ(estimate(4), -1.0);
  now_.jobs[1].iterations = 0;  // how long one takes is not known either
  now_.jobs[1].device_time = Duration();
  EXPECT_DOUBLE_EQ(estimate(3), -1.0);
}

TEST_F(WaitEstimate, AnEndlessNeighbourSlowsALaneDown) {
  runs(1, 40, 20, 1, 6);
  runs(2, 20, 20, 1, 0).options.total_iterations = 0;
  region(1, 20);
  waits(3, 30, 20, 1);
  EXPECT_DOUBLE_EQ(estimate(3), 12.0);
}

TEST_F(WaitEstimate, AJobThatWaitsForALaneNeedsOneThatGetsEmpty) {
  runs(1, 10, 10, 1, 2);
  runs(2, 10, 10, 1, 8);
  region(1, 10);
  waits(3, 5, 5, 1, ReasonCode::lanes_exhausted);  // bytes are there
  EXPECT_DOUBLE_EQ(estimate(3), 10.0);
}

// By the sum of free bytes job 3 would fit when job 1 ends: 20 and 60 are 80. But an endless job's
// image lies between.
TEST_F(WaitEstimate, BytesThatDoNotLieTogetherAreNoRoom) {
  runs(1, 40, 20, 1, 30);
  runs(2, 10, 10, 2, 5).options.total_iterations = 0;
  region(2, 10);
  region(1, 20);
  waits(3, 60, 15, 1);
  EXPECT_DOUBLE_EQ(estimate(3), -1.0);
  now_.jobs[1].options.total_iterations = 60;  // 50 more
  EXPECT_DOUBLE_EQ(estimate(3), 50.0);
}

TEST_F(WaitEstimate, NobodyKnowsHowLongAHeldJobKeepsOthersBack) {
  runs(1, 40, 20, 1, 30);
  runs(2, 10, 10, 2, 5);
  region(1, 20);
  region(2, 10);
  waits(3, 30, 5, 1);
  EXPECT_DOUBLE_EQ(estimate(3), 5.0);
  JobStatus& held = now_.jobs[1];
  held.state = JobState::held;
  EXPECT_DOUBLE_EQ(estimate(3), 5.0) << "it has nothing to run, and keeps nobody back";
  held.waiting_since = TimePoint();
  EXPECT_DOUBLE_EQ(estimate(3), -1.0);
}

TEST_F(WaitEstimate, NobodyElseHasOne) {
  runs(1, 10, 10, 1, 2);
  region(1, 10);
  EXPECT_DOUBLE_EQ(estimate(1), -1.0);
  EXPECT_DOUBLE_EQ(estimate(9), -1.0);
}

TEST_F(WaitEstimate, LargestNumbersDoNotOverflow) {
  runs(1, 90, 5, 1, UINT64_MAX - 10).device_time = Duration(INT64_MAX);
  region(1, 5);
  waits(2, 50, 5, 1);
  EXPECT_GT(estimate(2), 1e5);
}

}  // namespace
}  // namespace laneway::lanes
