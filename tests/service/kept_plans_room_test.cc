// Shows that plans which find no room in the recovery memory cost nothing but a line in the log,
// one for all, and that what was kept before and is not true any more is not found again.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "adaptor/device/device_job.h"
#include "base/limits.h"
#include "lanes/graph/graph_codec.h"
#include "service/transport/descriptor.h"
#include "service/worker/run/kept_plans.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

constexpr JobId kJob(5);

class KeptPlansRoom : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::ftruncate(file_.get(), mib(4).count()), 0);
    memory_ = RecoveryMemory::map(file_.get(), mib(4)).value();
    ASSERT_TRUE(memory_->take_over());
  }
  // A completed probe with a tape of one allocation.
  IterationResult learnt(uint64_t bytes) {
    IterationResult result;
    result.learnt = cache_.plan({.allocations = {{bytes, 0}}, .frees = {0}});
    return result;
  }
  // All that is left of the memory is somebody else's.
  void fill() {
    for (uint32_t number = 0; memory_->add({PieceKind::snapshot, 9, number}, kib(4)); ++number) {
    }
  }
  WorkerGraph graph(uint32_t number = 0) {
    auto made = adaptor::make_job(*backend_, testing::adding_slots(64),
                                  lanes::encode_graph(testing::adding_graph(64)), mib(1));
    jobs_.push_back(std::move(made.value().job));
    return {number, std::move(made.value().graph)};
  }

  const Descriptor file_{::memfd_create("recovery", MFD_CLOEXEC)};
  const std::unique_ptr<adaptor::Backend> backend_ = adaptor::open_backend("host", {}).value();
  std::vector<std::unique_ptr<adaptor::DeviceJob>> jobs_;
  std::unique_ptr<RecoveryMemory> memory_;
  PlanCache cache_{limits::kHostAlignment};
};

TEST_F(KeptPlansRoom, WithoutRoomNothingIsKeptAndItIsSaidOnce) {
  KeptPlans plans(memory_.get(), cache_);
  WorkerGraph one = graph();
  fill();
  ::testing::internal::CaptureStderr();
  plans.keep(kJob, one, learnt(100));
  plans.keep(kJob, one, learnt(200));
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string line = "plans of graphs are not kept";
  EXPECT_NE(said.find(line), std::string::npos) << said;
  EXPECT_EQ(said.find(line), said.rfind(line)) << said;
  EXPECT_NE(said.find("--recovery-memory"), std::string::npos) << said;
  EXPECT_FALSE(plans.restore(kJob, one));
}

TEST_F(KeptPlansRoom, AnOlderPlanDoesNotStandForOneThatHadNoRoom) {
  KeptPlans plans(memory_.get(), cache_);
  WorkerGraph one = graph();
  plans.keep(kJob, one, learnt(100));
  ASSERT_TRUE(plans.restore(kJob, one));
  fill();  // the new one is written before the old one goes
  plans.keep(kJob, one, learnt(200));
  EXPECT_FALSE(plans.restore(kJob, one));
}

TEST_F(KeptPlansRoom, APlanThatDidNotFitItsLaneOrWhoseGraphIsDroppedIsReleased) {
  KeptPlans plans(memory_.get(), cache_);
  WorkerGraph one = graph(1);
  WorkerGraph two = graph(2);
  plans.keep(kJob, one, learnt(100));
  plans.keep(kJob, two, learnt(100));
  IterationResult left;
  left.end = IterationEnd::out_of_lane;
  plans.keep(kJob, one, left);
  EXPECT_FALSE(plans.restore(kJob, one));
  EXPECT_TRUE(plans.restore(kJob, two));
  plans.drop(kJob, two);
  plans.keep(kJob, two, learnt(300));  // its last iteration was under way
  EXPECT_FALSE(plans.restore(kJob, two));
  EXPECT_TRUE(memory_->keys().empty());
}

TEST_F(KeptPlansRoom, WithoutAMemoryNothingIsKept) {
  KeptPlans plans(nullptr, cache_);
  WorkerGraph one = graph();
  plans.keep(kJob, one, learnt(100));
  plans.drop(kJob, one);
  plans.drop_all(kJob);
  plans.retain({});
  EXPECT_FALSE(plans.restore(kJob, one));
}

}  // namespace
}  // namespace laneway::service
