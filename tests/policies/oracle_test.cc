// What the oracle says of jobs that do not say it themselves, and that an error put into it is the
// same each time and within its bounds.
#include "policies/oracle.h"

#include <gtest/gtest.h>

#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

TEST(Oracle, AJobOfUnknownLengthIsTakenToBeHalfDone) {
  JobView job;
  const Oracle oracle;
  EXPECT_EQ(oracle.remaining(job), Duration()) << "nothing is held against a newcomer";
  Scene::set_done(job, 100, milliseconds(3));
  EXPECT_EQ(oracle.remaining(job), milliseconds(300));
  EXPECT_EQ(oracle.total(job), milliseconds(600));
  EXPECT_EQ(oracle.known_remaining(job), std::nullopt);
}

TEST(Oracle, ALieAboutTheTotalWinsNothingOnceItIsPassed) {
  JobView liar;
  liar.options.total_iterations = 5;
  Scene::set_done(liar, 4, milliseconds(3));
  const Oracle oracle;
  EXPECT_EQ(oracle.remaining(liar), milliseconds(3));
  liar.counted_time = {};
  Scene::set_done(liar, 1000, milliseconds(3));
  EXPECT_EQ(oracle.remaining(liar), seconds(3)) << "as much again as it had";
}

TEST(Oracle, AnInferenceJobIsAsLongAsOneRequest) {
  JobView job;
  job.options.job_class = JobClass::inference;
  Scene::set_done(job, 1000, milliseconds(3));
  EXPECT_EQ(Oracle().remaining(job), milliseconds(3));
  EXPECT_EQ(Oracle().total(job), milliseconds(3));
}

TEST(Oracle, JobsOfWeeksKeepTheirOrder) {
  JobView shorter;
  shorter.options.total_iterations = 20 * 86'400;
  Scene::set_done(shorter, 2, seconds(1));
  JobView longer = shorter;
  longer.options.total_iterations = 21 * 86'400;
  longer.update_remaining();
  EXPECT_LT(Oracle().remaining(shorter), Oracle().remaining(longer));
  EXPECT_LT(Oracle().total(shorter), Oracle().total(longer));
}

TEST(Oracle, OnlyWhatCountsIsSetAgainstTheTotal) {
  JobView job;  // 10 steps of 4 ms, and 90 other iterations of 1 ms
  job.iterations = 100;
  job.counted = 10;
  job.busy = milliseconds(130);
  job.counted_time.add(10, milliseconds(40));
  job.options.total_iterations = 20;
  job.update_remaining();
  EXPECT_EQ(Oracle().remaining(job), milliseconds(40));
}

TEST(Oracle, ANewcomerIsOneWithFewerThanTwoIterations) {
  Scene scene;
  JobView& old = scene.in_lane(1, 1, /*ready=*/true);
  Scene::set_done(old, 2, milliseconds(1));
  JobView& newcomer = scene.in_lane(2, 1, /*ready=*/true);
  const auto& ready = scene.view.lane(LaneId(1))->ready;
  EXPECT_EQ(Oracle::unmeasured(ready), &newcomer);
  newcomer.turns = 4;
  EXPECT_EQ(Oracle::unmeasured(ready), nullptr) << "it fails or has nothing to do";
}

TEST(Oracle, AnErrorIsTheSameForAJobAndWithinItsBounds) {
  const auto with = [](const char* text) {
    PolicyOptions options = PolicyOptions::parse("srtf", text).value();
    const Oracle oracle(options);
    EXPECT_TRUE(options.finish().ok());
    return oracle;
  };
  const Oracle wrong = with("oracle_error=0.5:seed=7");
  const Oracle again = with("oracle_error=0.5:seed=7");
  const Oracle other = with("oracle_error=0.5:seed=8");
  int differ = 0;
  int longer = 0;
  for (uint64_t id = 1; id <= 200; ++id) {
    JobView job;
    job.id = JobId(id);
    Scene::set_remaining(job, 1000, milliseconds(3));
    const Duration told = wrong.remaining(job);
    EXPECT_EQ(told, wrong.remaining(job));
    EXPECT_EQ(told, again.remaining(job));
    EXPECT_GE(told, milliseconds(2000));
    EXPECT_LE(told, milliseconds(4500));
    differ += told != other.remaining(job) ? 1 : 0;
    longer += told > milliseconds(3000) ? 1 : 0;
  }
  EXPECT_EQ(differ, 200);
  EXPECT_GT(longer, 60);
  EXPECT_LT(longer, 140);
}

}  // namespace
}  // namespace laneway::policies
