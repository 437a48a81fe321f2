// What a worker keeps of what cores have learnt: the latest of each pair, of the pairs told last.
#include "service/worker/jobs/learnt_of_job.h"

#include <gtest/gtest.h>

namespace laneway::service {
namespace {

lanes::KeepLearnt learnt(int64_t note, uint64_t other, int64_t ms) {
  return {.job = JobId(1),
          .learnt = {.policy = 5, .lane = LaneId(2), .note = {.first = note}, .alone = {}},
          .beside = {.other = JobId(other), .time = {.count = 1, .sum = milliseconds(ms)}}};
}

TEST(LearntOfJob, TheLatestStays) {
  LearntOfJob kept;
  EXPECT_EQ(kept.learnt(), lanes::Learnt());
  kept.take(learnt(1, 7, 10));
  kept.take(learnt(2, 8, 20));
  kept.take(learnt(3, 7, 30));
  kept.take(learnt(4, 0, 40));  // nothing new of a pair
  EXPECT_EQ(kept.learnt().note.first, 4);
  ASSERT_EQ(kept.beside().size(), 2u);
  EXPECT_EQ(kept.beside()[0].other, JobId(8));
  EXPECT_EQ(kept.beside()[1].other, JobId(7));
  EXPECT_EQ(kept.beside()[1].time.sum, milliseconds(30));
}

TEST(LearntOfJob, TheOldestOfTooManyGoes) {
  LearntOfJob kept;
  for (uint64_t other = 2; other <= 2 + lanes::kMostLearntBeside; ++other) {
    kept.take(learnt(0, other, 1));
  }
  ASSERT_EQ(kept.beside().size(), lanes::kMostLearntBeside);
  EXPECT_EQ(kept.beside().front().other, JobId(3));
}

}  // namespace
}  // namespace laneway::service
