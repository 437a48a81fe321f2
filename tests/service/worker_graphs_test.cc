// Shows that graphs come and go while their job works: one that is dropped still runs what was
// queued for it, its number never names another, the count is bounded, and the lane's need follows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/limits.h"
#include "lanes/graph/graph_codec.h"
#include "service/worker/common/iteration_observer.h"
#include "service/worker/worker.h"
#include "tests/service/service_rig.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

using testing::Blocker;
using ::testing::HasSubstr;
using testing::open_service;
using testing::TinyJob;

uint32_t add_reading(TinyJob& job) {
  return job.worker()
      .add_graph(*job.handle(), lanes::encode_graph(testing::reading_graph(job.count())))
      .value();
}

// Between the answer and what is learnt from the iteration: stays until somebody has asked, and a
// while longer.
class Lingering final : public IterationObserver {
 public:
  void iterated(const wire::IterationNote& note) override {
    (void)note;
    ++heard_;
    while (asked < heard_) std::this_thread::yield();
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
  }
  std::atomic<uint64_t> asked{0};  // as often

 private:
  uint64_t heard_ = 0;
};

TEST(WorkerGraphs, KnowTheIterationsOfWhichTheirClientHasHeard) {
  Lingering lingering;
  const auto service = open_service(/*lanes=*/1);
  TinyJob job(*service, "job");
  job.worker().set_iteration_observer(&lingering);
  for (uint64_t done = 1; done <= 3; ++done) {
    const testing::Pending pending = job.submit(1).value();
    ASSERT_TRUE(job.wait(pending, job.expected()));
    ++lingering.asked;
    const auto plans = job.worker().plans(*job.handle());
    EXPECT_EQ(plans.front().second.iterations, done);
    EXPECT_NE(plans.front().second.planned, nullptr);
  }
}

TEST(WorkerGraphs, RunWhatWasQueuedBeforeTheyWereDropped) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob job(*service, "job");
  ASSERT_TRUE(job.run(1));
  const uint32_t reading = add_reading(job);
  const std::vector<float> ones(static_cast<size_t>(job.count()), 1.0F);
  const lanes::InputView input{.data = ones.data(), .bytes = ones.size() * sizeof(float)};
  auto work = std::make_shared<Work>(job.worker().find_graph(*job.handle(), reading).value(),
                                     std::span(&input, 1));
  {
    const Blocker blocker(job);
    ASSERT_TRUE(job.worker().submit(job.handle(), work));
    ASSERT_TRUE(job.worker().drop_graph(*job.handle(), reading));
    EXPECT_FALSE(job.worker().find_graph(*job.handle(), reading));
  }
  ASSERT_TRUE(work->wait(Duration(-1))->ok());
  EXPECT_EQ(static_cast<const float*>(work->outputs()[0].data)[0], 3);
  EXPECT_EQ(work->graph(), nullptr);  // complete work keeps nothing of its job
  EXPECT_TRUE(job.run(1));
}

TEST(WorkerGraphs, AreNotGivenTheNumberOfADroppedOne) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob job(*service, "job");
  EXPECT_EQ(add_reading(job), 1U);
  ASSERT_TRUE(job.worker().drop_graph(*job.handle(), 1));
  EXPECT_EQ(add_reading(job), 2U);
  const Status gone = job.worker().drop_graph(*job.handle(), 1);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(gone.error().message, HasSubstr("'job' has no graph numbered 1"));
}

TEST(WorkerGraphs, AreBoundedAndDroppingOneMakesRoom) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob job(*service, "job");
  for (uint32_t i = 1; i < limits::kMaxGraphsPerJob; ++i) EXPECT_EQ(add_reading(job), i);
  const std::vector<std::byte> one_more = lanes::encode_graph(testing::reading_graph(job.count()));
  const auto refused = job.worker().add_graph(*job.handle(), one_more);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::refused);
  EXPECT_THAT(refused.error().message, HasSubstr("'job' has 64 graphs"));
  EXPECT_TRUE(job.run(1));
  ASSERT_TRUE(job.worker().drop_graph(*job.handle(), 7));
  EXPECT_EQ(job.worker().add_graph(*job.handle(), one_more).value(), limits::kMaxGraphsPerJob);
}

TEST(WorkerGraphs, LeaveAJobAtLeastOne) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob job(*service, "job");
  const Status refused = job.worker().drop_graph(*job.handle(), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::refused);
  EXPECT_THAT(refused.error().message, HasSubstr("close the job instead"));
  EXPECT_TRUE(job.run(1));
}

TEST(WorkerGraphs, NoLongerCountInTheNeedOnceDropped) {
  const auto service = open_service(/*lanes=*/1, mib(8));
  TinyJob job(*service, "job");
  ASSERT_TRUE(job.run(1));
  const auto large =
      job.worker().add_graph(*job.handle(), lanes::encode_graph(testing::doubling_graph(1 << 18)));
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_GE(job.worker().need(*job.handle()), mib(1));
  EXPECT_TRUE(job.run(1));
  ASSERT_TRUE(job.worker().drop_graph(*job.handle(), large.value()));
  EXPECT_LT(job.worker().need(*job.handle()), mib(1));
  EXPECT_TRUE(job.run(1));
  EXPECT_EQ(job.read().value(), 6);
}

}  // namespace
}  // namespace laneway::service
