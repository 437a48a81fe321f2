// Shows whose answer it is that an iteration finds no room beside all the others: that of the
// iteration that did not fit. What is queued behind it runs, and so does what takes its place when
// it was cancelled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "lanes/graph/graph_codec.h"
#include "service/worker/worker.h"
#include "tests/service/service_rig.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;
using testing::open_service;
using testing::Pending;
using testing::TinyJob;

// Of a pool of 16 MiB: one iteration finds room beside its own image, but not beside both.
constexpr int64_t kState = (int64_t{3} << 20) / sizeof(float);
constexpr int64_t kLarge = (int64_t{11} << 20) / sizeof(float);

// A job with a second graph whose iterations do not fit the lane that it has.
class Growing {
 public:
  Growing(EmbeddedService& service, const char* name) : job(service, name, kState) {
    EXPECT_TRUE(job.run(1));
  }
  Pending submit_large() {
    const std::vector<float> ones(kLarge, 1.0F);
    const lanes::InputView input{.data = ones.data(), .bytes = ones.size() * sizeof(float)};
    if (large_ == 0) {
      large_ = job.worker()
                   .add_graph(*job.handle(), lanes::encode_graph(testing::doubling_graph(kLarge)))
                   .value();
    }
    auto work = std::make_shared<Work>(job.worker().find_graph(*job.handle(), large_).value(),
                                       std::span(&input, 1));
    EXPECT_TRUE(job.worker().submit(job.handle(), work));
    return work;
  }

  TinyJob job;

 private:
  uint32_t large_ = 0;
};

// Waits until the core holds the job back.
void wait_held(EmbeddedService& service, const Growing& growing) {
  const auto is_held = [&] {
    const lanes::Snapshot now = service.snapshot();
    return std::any_of(now.jobs.begin(), now.jobs.end(), [&](const lanes::JobStatus& job) {
      return job.id == growing.job.handle()->id && job.state == lanes::JobState::held;
    });
  };
  while (!is_held()) std::this_thread::yield();
}

TEST(WorkerRefuse, TheIterationThatDidNotFitAndNotWhatIsBehindIt) {
  const auto service = open_service(/*lanes=*/1);
  Growing first(*service, "first");
  Growing second(*service, "second");
  const Pending waits = first.submit_large();
  const Pending refused = second.submit_large();
  const Pending behind = second.job.submit(1).value();
  const std::optional<Status> answer = refused->wait(Duration(-1));
  ASSERT_FALSE(answer->ok());
  EXPECT_EQ(answer->error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(answer->error().message, HasSubstr("no room to grow it"));
  const Status done = second.job.wait(behind, second.job.expected());
  EXPECT_TRUE(done) << done.error().message;
  second.job.close();
  EXPECT_TRUE(waits->wait(Duration(-1))->ok());
}

TEST(WorkerRefuse, NobodyWhenTheIterationWasCancelledMeanwhile) {
  const auto service = open_service(/*lanes=*/1);
  Growing first(*service, "first");
  Growing second(*service, "second");
  const Pending cancelled = second.submit_large();
  const Pending behind = second.job.submit(1).value();
  wait_held(*service, second);
  ASSERT_TRUE(second.job.worker().cancel(*second.job.handle(), cancelled));
  const Pending waits = first.submit_large();
  const Status done = second.job.wait(behind, second.job.expected());
  EXPECT_TRUE(done) << done.error().message;
  second.job.close();
  EXPECT_TRUE(waits->wait(Duration(-1))->ok());
}

}  // namespace
}  // namespace laneway::service
