// Shows that nothing is lost, doubled or stuck when several clients do everything at once: each
// thread owns jobs, runs, submits, waits, reads state, adds graphs, asks for reports, closes and
// makes new ones, in an order drawn from the seed, over one lane and over two. Jobs of higher
// priority interrupt those of lower ones. Every result is
// compared with what the thread counted itself; a lost wake-up would hang the test.
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <thread>

#include "base/random.h"
#include "lanes/graph/graph_codec.h"
#include "tests/service/service_rig.h"
#include "tests/service/tiny_graphs.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

using testing::Pending;
using testing::TinyJob;

constexpr int kOperations = 1500;  // of each thread

class Client {
 public:
  Client(EmbeddedService& service, uint64_t seed) : service_(service), random_(seed) {}

  void work() {
    for (int i = 0; i < kOperations; ++i) {
      if (!job_) {
        const auto priority = static_cast<int32_t>(random_.below(3));
        job_.emplace(service_, "stress", 8 + static_cast<int64_t>(random_.below(500)), priority);
      }
      step();
    }
    if (job_) close();
  }

 private:
  void step() {
    const auto value = static_cast<float>(1 + random_.below(3));
    switch (random_.below(16)) {
      case 0: close(); return;
      case 1:
      case 2: read(); return;
      case 3: add_graph(); return;
      case 4:
        EXPECT_TRUE(service_.job_report(*job_->handle(), false));
        EXPECT_TRUE(service_.status());
        return;
      case 5:
      case 6:
      case 7: drain(random_.below(has_enqueued_.size() + 1)); return;
      case 8:
      case 9:
      case 10: ASSERT_TRUE(job_->run(value)); return;
      default: submit(value); return;
    }
  }

  void submit(float value) {
    Result<Pending> pending = job_->submit(value);
    if (!pending) {
      EXPECT_EQ(pending.error().code, ErrorCode::busy) << pending.error().message;
      drain(0);
      return;
    }
    has_enqueued_.emplace_back(std::move(pending).value(), job_->expected());
  }
  void drain(size_t keep) {
    while (has_enqueued_.size() > keep) {
      const Status done = job_->wait(has_enqueued_.front().first, has_enqueued_.front().second);
      EXPECT_TRUE(done) << done.error().message;
      has_enqueued_.pop_front();
    }
  }
  void read() {
    const Result<float> state = job_->read();
    if (!state) {
      EXPECT_EQ(state.error().code, ErrorCode::refused) << state.error().message;
      return;
    }
    EXPECT_EQ(state.value(), job_->expected());
  }
  void add_graph() {
    const auto added = service_.worker().add_graph(
        *job_->handle(), lanes::encode_graph(testing::reading_graph(job_->count())));
    if (!added) {
      EXPECT_EQ(added.error().code, ErrorCode::refused) << added.error().message;
    } else if (random_.chance(0.8)) {
      EXPECT_TRUE(service_.worker().drop_graph(*job_->handle(), added.value()));
    }
  }
  void close() {
    if (random_.chance(0.5)) drain(0);
    job_->close();
    for (const auto& [work, expected] : has_enqueued_) {
      const auto done = work->wait(Duration(-1));  // ran, or was cancelled
      if (!*done) {
        EXPECT_EQ(done->error().code, ErrorCode::cancelled) << done->error().message;
      }
    }
    has_enqueued_.clear();
    EXPECT_FALSE(job_->run(1));
    job_.reset();
  }

  EmbeddedService& service_;
  Random random_;
  std::optional<TinyJob> job_;
  std::deque<std::pair<Pending, float>> has_enqueued_;
};

void stress(uint32_t lanes, const std::string& policy, uint64_t seed) {
  // Room for some of the clients' jobs, not always for all.
  const auto service = testing::open_service(lanes, mib(1), policy);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&service, seed, i] { Client(*service, seed * 1000 + i).work(); });
  }
  for (std::thread& thread : threads) thread.join();
  // Whatever they held is free: one that needs nearly the whole pool gets in.
  TinyJob whole(*service, "whole", (300 << 10) / 4);
  EXPECT_TRUE(whole.run(1));
}

TEST(WorkerStress, OneLane) { stress(1, "fifo", testing::seed_from_environment(1)); }
TEST(WorkerStress, TwoLanes) { stress(2, "fifo", testing::seed_from_environment(2)); }
TEST(WorkerStress, ShortestFirst) { stress(2, "srtf", testing::seed_from_environment(3)); }

}  // namespace
}  // namespace laneway::service
