// Shows when a worker's iterations are told, that they are kept while there is no broker, and that
// what has no room is counted.
#include "service/worker/process/iteration_sender.h"

#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "service/trace/limits.h"
#include "service/transport/channel.h"
#include "service/wire/codec.h"
#include "service/wire/limits.h"

namespace laneway::service {
namespace {

class IterationSenderTest : public ::testing::Test {
 protected:
  void connect() {
    auto ends = Channel::pair();
    channel_.connect(std::move(ends.value().first));
    broker_ = std::move(ends.value().second);
  }
  void iterate(uint64_t job, int64_t start_ns = 0, int64_t took_ns = 1) {
    sender_.iterated({.job = JobId(job),
                      .lane = LaneId(1),
                      .graph = 0,
                      .start_ns = start_ns,
                      .took_ns = took_ns,
                      .outcome = wire::IterationOutcome::completed});
  }
  // How many notes each message that came had.
  std::vector<size_t> told() {
    std::vector<size_t> counts;
    channel_.flush();
    while (true) {
      auto frame = broker_.receive();
      if (!frame || !frame.value()) return counts;
      auto message = wire::decode<wire::from_worker::Any>(frame.value()->bytes);
      auto& iterations = std::get<wire::from_worker::Iterations>(message.value());
      counts.push_back(iterations.notes.size());
      last_ = std::move(iterations);
      channel_.flush();
    }
  }

  BrokerChannel channel_{-1};
  IterationSender sender_{channel_};
  Channel broker_;
  wire::from_worker::Iterations last_;
};

TEST_F(IterationSenderTest, TellsWhenAskedToAndWhenHalfFull) {
  connect();
  for (uint64_t job = 1; job <= 3; ++job) iterate(job);
  EXPECT_EQ(told(), std::vector<size_t>{});
  sender_.send();
  EXPECT_EQ(told(), std::vector<size_t>{3});
  EXPECT_EQ(last_.notes.back().job, JobId(3));
  sender_.send();
  EXPECT_EQ(told(), std::vector<size_t>{});
  for (uint32_t i = 0; i < limits::kMaxIterationNotes / 2; ++i) iterate(1);
  EXPECT_EQ(told(), std::vector<size_t>{limits::kMaxIterationNotes / 2});
}

TEST_F(IterationSenderTest, TellsWhenTheOldestHasWaited) {
  connect();
  const int64_t patience = limits::kLongestTraceDelay.ns();
  iterate(1, 1'000, 10);
  iterate(1, 2'000, patience - 1'001);
  EXPECT_EQ(told(), std::vector<size_t>{});
  iterate(1, 3'000, patience - 2'000);
  EXPECT_EQ(told(), std::vector<size_t>{3});
}

TEST_F(IterationSenderTest, KeepsThemWithoutABrokerAndCountsWhatHasNoRoom) {
  constexpr uint32_t kMore = 7;
  for (uint32_t i = 0; i < limits::kMaxIterationNotes + kMore; ++i) iterate(i + 1);
  connect();
  sender_.send();
  EXPECT_EQ(told(), std::vector<size_t>{limits::kMaxIterationNotes});
  EXPECT_EQ(last_.notes.front().job, JobId(1));
  EXPECT_EQ(last_.notes.back().job, JobId(limits::kMaxIterationNotes));
  EXPECT_EQ(last_.lost, kMore);
  iterate(1);
  sender_.send();
  EXPECT_EQ(told(), std::vector<size_t>{1});
  EXPECT_EQ(last_.lost, 0u);
}

}  // namespace
}  // namespace laneway::service
