// Shows that what a standby prepared is what would be made when it is asked for: given away only
// for exactly what it was made from, with the random state of a fresh job, and gone when it was
// forgotten. And that a stop leaves nothing half done.
#include "service/worker/process/prepared_jobs.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "lanes/graph/graph_codec.h"
#include "memory/os/shared_memory.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

constexpr int64_t kCount = 64;
// Only a hang meets it.
constexpr Duration kPatience = seconds(60);

class PreparedJobsTest : public ::testing::Test {
 protected:
  static std::vector<Descriptor> file(const std::vector<std::byte>& bytes) {
    auto memory =
        memory::SharedMemory::create("graph", Bytes(static_cast<int64_t>(bytes.size()))).value();
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    std::vector<Descriptor> fds;
    fds.emplace_back(::dup(memory.descriptor()));
    return fds;
  }
  template <class M>
  void tell(M message, std::vector<Descriptor> fds = {}) {
    jobs_.handle(std::move(message), std::move(fds), [this](const auto& done) {
      const MutexLock lock(mutex_);
      answers_.push_back(done);
      answered_.notify_all();
    });
  }
  void prepare_job(uint64_t id, const std::vector<std::byte>& graph) {
    wire::to_standby::PrepareJob message;
    message.job = id;
    message.slots = slots_;
    tell(message, file(graph));
  }
  void prepare_graph(uint64_t id, uint32_t number, const std::vector<std::byte>& graph) {
    wire::to_standby::PrepareGraph message;
    message.job = id;
    message.number = number;
    tell(message, file(graph));
  }
  // The answers so far, when there are so many.
  std::vector<bool> answers(size_t count) {
    const MutexLock lock(mutex_);
    while (answers_.size() < count) {
      if (!answered_.wait_for(mutex_, kPatience)) ADD_FAILURE() << "answers do not come";
    }
    std::vector<bool> oks;
    for (const auto& done : answers_) oks.push_back(done.ok);
    return oks;
  }
  void stop() {
    jobs_.stop();
    ASSERT_TRUE(jobs_.wait_stopped(kPatience));
  }
  std::optional<GraphCache::Job> take(uint64_t id, const std::vector<std::byte>& graph) {
    return jobs_.take_job(JobId(id), slots_, graph);
  }

  const std::vector<ImageSlot> slots_ = testing::adding_slots(kCount);
  const std::vector<std::byte> adding_ = lanes::encode_graph(testing::adding_graph(kCount));
  const std::vector<std::byte> reading_ = lanes::encode_graph(testing::reading_graph(kCount));
  const std::unique_ptr<adaptor::Backend> backend_ = adaptor::open_backend("host", {}).value();
  Mutex mutex_;
  CondVar answered_;
  std::vector<wire::from_standby::Prepared> answers_ LW_GUARDED_BY(mutex_);
  GraphCache graphs_;
  PreparedJobs jobs_{*backend_, graphs_, mib(16), nullptr};
};

TEST_F(PreparedJobsTest, AJobWithItsGraphsIsThereAndAsIfItWereFresh) {
  prepare_job(1, adding_);
  prepare_graph(1, 3, reading_);
  EXPECT_EQ(answers(2), (std::vector<bool>{true, true}));
  stop();
  EXPECT_FALSE(jobs_.take_graph(JobId(1), 3, reading_)) << "its job comes first";
  auto taken = take(1, adding_);
  ASSERT_TRUE(taken);
  const auto fresh = adaptor::make_job(*backend_, slots_, adding_, mib(16)).value();
  EXPECT_EQ(taken->made.job->random_state(), fresh.job->random_state())
      << "a dry run leaves no trace";
  EXPECT_EQ(taken->made.graph->graph().name, "adding");
  EXPECT_EQ(taken->made.graph->probe_need(), fresh.graph->probe_need());
  EXPECT_FALSE(jobs_.take_graph(JobId(1), 3, adding_)) << "another graph has its number now";
  const auto graph = jobs_.take_graph(JobId(1), 3, reading_);
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->made->graph().name, lanes::decode_graph(reading_).value().name);
  EXPECT_FALSE(jobs_.take_graph(JobId(1), 3, reading_)) << "it was taken";
}

TEST_F(PreparedJobsTest, EqualGraphsAreResolvedOnceAndKnownToTheWorker) {
  prepare_job(1, adding_);
  prepare_job(2, adding_);
  EXPECT_EQ(answers(2), (std::vector<bool>{true, true}));
  stop();
  const auto first = take(1, adding_);
  const auto second = take(2, adding_);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->made.graph->program(), second->made.graph->program());
  const auto later = graphs_.make_job(*backend_, slots_, adding_, mib(16)).value();
  EXPECT_TRUE(later.origin.was_known);
  EXPECT_EQ(later.made.graph->program(), first->made.graph->program());
}

TEST_F(PreparedJobsTest, AJobThatWasMadeFromAnythingElseIsNotGivenAway) {
  prepare_job(1, adding_);
  prepare_job(2, adding_);
  (void)answers(2);
  stop();
  EXPECT_FALSE(take(1, reading_));
  std::vector<ImageSlot> others = slots_;
  others[0].name = "another";
  EXPECT_FALSE(jobs_.take_job(JobId(2), others, adding_));
  EXPECT_FALSE(take(3, adding_));
}

TEST_F(PreparedJobsTest, WhatIsForgottenIsGone) {
  prepare_job(1, adding_);
  prepare_job(2, adding_);
  prepare_graph(1, 1, reading_);
  wire::to_standby::ForgetGraph graph;
  graph.job = 1;
  graph.number = 1;
  tell(graph);
  wire::to_standby::ForgetJob job;
  job.job = 2;
  tell(job);
  prepare_job(3, adding_);
  (void)answers(4);
  stop();
  EXPECT_FALSE(take(2, adding_));
  EXPECT_TRUE(take(1, adding_));
  EXPECT_FALSE(jobs_.take_graph(JobId(1), 1, reading_));
  EXPECT_TRUE(take(3, adding_));
}

TEST_F(PreparedJobsTest, ANewBrokersJobsStayAndOthersGo) {
  prepare_job(1, adding_);
  prepare_job(2, adding_);
  jobs_.begin_anew();
  prepare_job(2, adding_);
  tell(wire::to_standby::Settle{});
  prepare_job(3, adding_);
  EXPECT_EQ(answers(4).size(), 4U);
  stop();
  EXPECT_FALSE(take(1, adding_));
  EXPECT_TRUE(take(2, adding_));
  EXPECT_TRUE(take(3, adding_));
}

TEST_F(PreparedJobsTest, WhatIsNoGraphIsRefusedAndNothingElse) {
  prepare_job(1, std::vector<std::byte>(100));
  tell(wire::to_standby::PrepareGraph{.job = 9, .number = 1}, file(reading_));
  tell(wire::to_standby::PrepareJob{});
  prepare_job(2, adding_);
  EXPECT_EQ(answers(4), (std::vector<bool>{false, false, false, true}));
}

// Threads of this process with the system's lowest priority.
int idle_threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto thread = static_cast<pid_t>(std::stoi(task.path().filename().string()));
    count += ::sched_getscheduler(thread) == SCHED_IDLE ? 1 : 0;
  }
  return count;
}

// A user may need a right for the way back.
bool may_go_back() {
  bool back = false;
  std::thread([&back] {
    const sched_param none{};
    back = ::sched_setscheduler(0, SCHED_IDLE, &none) == 0 &&
           ::sched_setscheduler(0, SCHED_OTHER, &none) == 0;
  }).join();
  return back;
}

TEST_F(PreparedJobsTest, OnlyItsOwnThreadHasALowPriorityAndGetsItsOwnBackWhereItMay) {
  const int before = idle_threads();
  prepare_job(1, adding_);
  (void)answers(1);
  EXPECT_EQ(idle_threads(), before + 1);
  EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER);
  stop();
  EXPECT_EQ(idle_threads(), before + (may_go_back() ? 0 : 1));
}

TEST_F(PreparedJobsTest, NothingIsBegunBehindAStop) {
  for (uint64_t id = 1; id <= 50; ++id) prepare_job(id, adding_);
  stop();
  prepare_job(51, adding_);
  ASSERT_TRUE(jobs_.wait_stopped(kPatience));
  EXPECT_FALSE(take(51, adding_));
  // What is there is whole.
  for (uint64_t id = 1; id <= 50; ++id) {
    const auto taken = take(id, adding_);
    EXPECT_TRUE(!taken || taken->made.graph->graph().name == "adding");
  }
}

}  // namespace
}  // namespace laneway::service
