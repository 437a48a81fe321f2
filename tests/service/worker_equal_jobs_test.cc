// Shows that jobs with one graph share what is known of it and nothing else: one of them is probed,
// the others begin with its plan and need no more than it; each has a state of its own. And that
// what is not equal is measured for itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "lanes/graph/graph_codec.h"
#include "service/worker/worker.h"
#include "tests/service/service_rig.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

using testing::open_service;
using testing::TinyJob;

// When what ran before is in the books.
GraphPlan plan_of(TinyJob& job, size_t graph = 0) {
  EXPECT_TRUE(job.read());
  return job.worker().plans(*job.handle()).at(graph).second;
}

TEST(EqualJobs, AHundredAreResolvedAndProbedOnce) {
  const auto service = open_service(/*lanes=*/2);
  std::vector<std::unique_ptr<TinyJob>> jobs;
  uint64_t probes = 0;
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(std::make_unique<TinyJob>(*service, "job-" + std::to_string(i)));
    TinyJob& job = *jobs.back();
    ASSERT_TRUE(job.run(static_cast<float>(i)));
    ASSERT_TRUE(job.run(1));
    EXPECT_EQ(job.graph()->torch->program(), jobs[0]->graph()->torch->program());
    EXPECT_EQ(job.graph()->origin.was_known, i > 0);
    EXPECT_EQ(plan_of(job).planned, plan_of(*jobs[0]).planned);
    EXPECT_EQ(plan_of(job).iterations, 2U);
    EXPECT_EQ(plan_of(job).off_tape, 0U);
    probes += plan_of(job).probes;
  }
  EXPECT_EQ(probes, 1U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(jobs[static_cast<size_t>(i)]->read().value(), 2.0F * static_cast<float>(i) + 2);
  }
}

TEST(EqualJobs, NeedWhatThePlanNeedsFromTheOfferOn) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob first(*service, "first");
  const Bytes probe = first.worker().need(*first.handle());
  ASSERT_TRUE(first.run(1));
  ASSERT_TRUE(first.read());
  const Bytes planned = first.worker().need(*first.handle());
  ASSERT_LT(planned, probe);
  TinyJob second(*service, "second");
  EXPECT_EQ(second.handle()->offer.ephemeral, planned);
  EXPECT_EQ(second.worker().need(*second.handle()), planned);
}

TEST(EqualJobs, ThatWereThereBeforeTheProbeAreNotProbedEither) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob first(*service, "first");
  TinyJob second(*service, "second");
  TinyJob third(*service, "third");
  ASSERT_EQ(plan_of(second).planned, nullptr);
  const Bytes probe = first.worker().need(*second.handle());
  ASSERT_TRUE(first.run(1));
  EXPECT_NE(plan_of(first).planned, nullptr);
  EXPECT_EQ(plan_of(second).planned, plan_of(first).planned);
  EXPECT_TRUE(plan_of(second).is_shared);
  EXPECT_LT(first.worker().need(*second.handle()), probe);
  ASSERT_TRUE(second.run(2));
  ASSERT_TRUE(third.run(3));
  EXPECT_EQ(plan_of(first).probes + plan_of(second).probes + plan_of(third).probes, 1U);
  EXPECT_EQ(second.read().value(), 4);
}

TEST(EqualJobs, KeepThePlanOfAJobThatIsOver) {
  const auto service = open_service(/*lanes=*/1);
  auto first = std::make_unique<TinyJob>(*service, "first");
  ASSERT_TRUE(first->run(1));
  ASSERT_TRUE(first->read());
  first->close();
  first.reset();
  TinyJob second(*service, "second");
  EXPECT_TRUE(second.graph()->origin.was_known);
  ASSERT_TRUE(second.run(1));
  EXPECT_EQ(plan_of(second).probes, 0U);
}

// So that a policy can rank those that have not run. The first iteration is a probe; the time of
// the second is told when the third ends.
TEST(EqualJobs, TellWhatAnIterationTakesFromTheOfferOn) {
  const auto service = open_service(/*lanes=*/1);
  auto first = std::make_unique<TinyJob>(*service, "first");
  EXPECT_EQ(first->handle()->offer.iteration_estimate, Duration()) << "nobody has measured one";
  TinyJob there_before(*service, "there before");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(first->run(1));
  ASSERT_TRUE(first->read());  // what its last one taught is in the books
  const Duration took = plan_of(there_before).planned_took;
  EXPECT_GT(took, Duration());
  EXPECT_EQ(plan_of(there_before).iterations, 0U);
  TinyJob second(*service, "second");
  EXPECT_EQ(second.handle()->offer.iteration_estimate, took);
  first->close();
  first.reset();
  TinyJob third(*service, "third");
  EXPECT_EQ(third.handle()->offer.iteration_estimate, took) << "when the first one is over";
}

TEST(EqualJobs, AnotherSizeIsAnotherGraph) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob first(*service, "first", 16);
  ASSERT_TRUE(first.run(1));
  TinyJob other(*service, "other", 1 << 16);
  EXPECT_FALSE(other.graph()->origin.was_known);
  EXPECT_EQ(plan_of(other).planned, nullptr);
  EXPECT_EQ(other.handle()->offer.iteration_estimate, Duration());
  ASSERT_TRUE(other.run(1));
  EXPECT_EQ(plan_of(other).probes, 1U);
}

TEST(EqualJobs, FurtherGraphsAreSharedToo) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob first(*service, "first");
  TinyJob second(*service, "second");
  const auto reading = lanes::encode_graph(testing::reading_graph(first.count()));
  const auto run_reading = [&](TinyJob& job) {
    const uint32_t number = job.worker().add_graph(*job.handle(), reading).value();
    const std::vector<float> ones(static_cast<size_t>(job.count()), 1.0F);
    const lanes::InputView input{.data = ones.data(), .bytes = ones.size() * sizeof(float)};
    auto work = std::make_shared<Work>(job.worker().find_graph(*job.handle(), number).value(),
                                       std::span(&input, 1));
    ASSERT_TRUE(job.worker().submit(job.handle(), work));
    ASSERT_TRUE(work->wait(Duration(-1))->ok());
  };
  run_reading(first);
  run_reading(second);
  EXPECT_EQ(plan_of(first, 1).probes, 1U);
  EXPECT_EQ(plan_of(second, 1).probes, 0U);
  EXPECT_EQ(plan_of(second, 1).iterations, 1U);
}

TEST(EqualJobs, AreToldInTheReport) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob first(*service, "first");
  ASSERT_TRUE(first.run(1));
  ASSERT_TRUE(first.read());
  TinyJob second(*service, "second");
  const std::string of_first = service->job_report(*first.handle(), false).value();
  const std::string of_second = service->job_report(*second.handle(), false).value();
  EXPECT_THAT(of_first,
              ::testing::HasSubstr(R"("shared":{"resolved":false,"planned":false,"jobs":2})"));
  EXPECT_THAT(of_second,
              ::testing::HasSubstr(R"("shared":{"resolved":true,"planned":true,"jobs":2})"));
}

}  // namespace
}  // namespace laneway::service
