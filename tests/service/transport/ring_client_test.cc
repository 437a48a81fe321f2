// Shows the submitting side of a ring against a RingServer in a thread of its own: every request is
// answered once and in order whoever waits, several threads share one doorbell, sixty-four are
// taken and no more, what is cancelled does not run, and a closed ring or a service that is gone
// answers everything that is left.
#include "service/transport/ring_client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "service/transport/ring_server.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

constexpr Duration kForever = seconds(300);  // only a hang meets it

// Both sides of one ring; serve() starts the worker's.
class RingClientTest : public ::testing::Test {
 protected:
  using Answer = std::function<Status(const RingRequest&)>;

  RingClientTest() {
    static const bool ignored = ::signal(SIGPIPE, SIG_IGN) != SIG_ERR;
    LW_CHECK(ignored, "the signal can be ignored");
    auto memory = memory::SharedMemory::create("ring-test", Bytes(kRingBytes)).value();
    format_ring(*reinterpret_cast<RingMemory*>(memory.data()));
    int ends[2] = {-1, -1};
    LW_CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe for a test");
    Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    server_ = RingServer::attach(Descriptor(::dup(memory.descriptor())), wake.duplicate().value(),
                                 Descriptor(ends[1]))
                  .value();
    client_ = RingClient::attach(Descriptor(::dup(memory.descriptor())), std::move(wake),
                                 Descriptor(ends[0]), clock_)
                  .value();
  }
  ~RingClientTest() override { stop(); }

  void serve(Answer answer) {
    worker_ = std::jthread([this, answer = std::move(answer)](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (!serve_one(answer) && server_->arm()) {
          pollfd wake{.fd = server_->wake_descriptor(), .events = POLLIN, .revents = 0};
          ::poll(&wake, 1, 10);
          uint64_t strokes = 0;
          if (::read(wake.fd, &strokes, sizeof strokes) > 0) ++wakes_;
          server_->disarm();
        }
      }
    });
  }
  bool serve_one(const Answer& answer) {
    const auto request = server_->take();
    if (!request) return false;
    const Status cancelled = Error{ErrorCode::cancelled, "cancelled"};
    server_->answer(request->sequence, request->cancelled ? cancelled : answer(*request),
                    microseconds(1));
    server_->publish(request->sequence);
    return true;
  }
  void stop() {
    if (!worker_.joinable()) return;
    worker_.request_stop();
    worker_.join();
  }
  RingClient::Handle submit(uint32_t graph, std::shared_ptr<void> keeps = nullptr) {
    return client_->submit({.graph = graph}, std::move(keeps)).value();
  }

  const SteadyClock clock_;
  std::unique_ptr<RingServer> server_;
  std::unique_ptr<RingClient> client_;
  std::jthread worker_;
  std::atomic<int> wakes_{0};
};

TEST_F(RingClientTest, AnswersComeBackWithTheirWords) {
  serve([](const RingRequest& request) {
    if (request.graph % 2 == 0) return Status();
    return Status(Error{ErrorCode::failed, "graph " + std::to_string(request.graph)});
  });
  for (uint32_t i = 0; i < 200; ++i) {
    const auto answer = client_->wait(submit(i), kForever);
    ASSERT_TRUE(answer.has_value());
    if (i % 2 == 0) {
      EXPECT_TRUE(answer->ok());
    } else {
      EXPECT_EQ(answer->error().code, ErrorCode::failed);
      EXPECT_EQ(answer->error().message, "graph " + std::to_string(i));
    }
  }
}

TEST_F(RingClientTest, SixtyFourAreTakenAndNoMore) {
  std::vector<RingClient::Handle> entries;
  for (uint32_t i = 0; i < kRingSlots; ++i) entries.push_back(submit(i));
  const auto refused = client_->submit({}, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::busy);
  EXPECT_FALSE(client_->wait_for_room(Duration()).has_value());
  EXPECT_FALSE(client_->wait_for_room(milliseconds(1)).has_value());
  EXPECT_FALSE(client_->wait(entries.front(), Duration()).has_value());
  EXPECT_FALSE(client_->wait(entries.front(), milliseconds(1)).has_value());
  EXPECT_TRUE(serve_one([](const RingRequest&) { return Status(); }));
  EXPECT_TRUE(client_->wait_for_room(kForever)->ok());
  entries.push_back(submit(kRingSlots));
  serve([](const RingRequest&) { return Status(); });
  for (const auto& entry : entries) EXPECT_TRUE(client_->wait(entry, kForever)->ok());
}

TEST_F(RingClientTest, UnclaimedAnswersFreeTheirBlocks) {
  auto block = std::make_shared<int>(0);
  (void)submit(0, block);  // nobody holds it
  const auto second = submit(1, block);
  EXPECT_EQ(block.use_count(), 3);
  serve([](const RingRequest&) { return Status(); });
  EXPECT_TRUE(client_->wait(second, kForever)->ok());
  EXPECT_EQ(block.use_count(), 1);
}

TEST_F(RingClientTest, WhatIsCancelledDoesNotRun) {
  const auto first = submit(0), second = submit(1), third = submit(2);
  EXPECT_TRUE(client_->cancel(second));
  EXPECT_TRUE(client_->cancel(second));
  EXPECT_EQ(client_->wait(second, Duration())->error().code, ErrorCode::cancelled);
  std::atomic<uint32_t> ran{0};
  serve([&](const RingRequest& request) {
    ran |= 1u << request.graph;
    return Status();
  });
  EXPECT_TRUE(client_->wait(third, kForever)->ok());
  EXPECT_EQ(ran, 0b101u);
  EXPECT_FALSE(client_->cancel(first));
  EXPECT_TRUE(client_->wait(first, Duration())->ok());
  EXPECT_EQ(client_->wait(second, Duration())->error().code, ErrorCode::cancelled);
}

TEST_F(RingClientTest, WhatRunsIsNotCancelled) {
  const auto entry = submit(0);
  const auto taken = server_->take();
  EXPECT_FALSE(client_->cancel(entry));
  server_->answer(taken->sequence, Status(), Duration());
  server_->publish(taken->sequence);
  EXPECT_TRUE(client_->wait(entry, kForever)->ok());
}

TEST_F(RingClientTest, ThreadsShareOneDoorbell) {
  const uint64_t seed = laneway::testing::seed_from_environment(11);
  serve([](const RingRequest& request) {
    return Status(Error{ErrorCode::failed, std::to_string(request.graph)});
  });
  std::vector<std::jthread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread, seed] {
      Random random(seed + thread);
      std::vector<std::pair<uint32_t, RingClient::Handle>> open;
      for (uint32_t i = 0; i < 500; ++i) {
        open.emplace_back(i * 4 + thread, submit(i * 4 + thread));
        while (!open.empty() && (open.size() > 10 || random.below(2) == 0)) {
          const size_t which = random.below(open.size());
          const auto answer = client_->wait(open[which].second, kForever);
          ASSERT_TRUE(answer.has_value());
          EXPECT_EQ(answer->error().message, std::to_string(open[which].first));
          open.erase(open.begin() + static_cast<ptrdiff_t>(which));
        }
      }
    });
  }
}

TEST_F(RingClientTest, AClosedRingAnswersTheRest) {
  const auto first = submit(0), second = submit(1);
  EXPECT_TRUE(serve_one([](const RingRequest&) { return Status(); }));
  std::jthread closer([this] { server_->close(Error{ErrorCode::failed, "the job was killed"}); });
  const auto answer = client_->wait(second, kForever);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->error().message, "the job was killed");
  EXPECT_TRUE(client_->wait(first, kForever)->ok());
  EXPECT_EQ(client_->submit({}, nullptr).error().message, "the job was killed");
  EXPECT_EQ(client_->check_open().error().code, ErrorCode::failed);
}

TEST_F(RingClientTest, AFullRingThatIsRefusedForGoodIsNotBusy) {
  for (uint32_t i = 0; i < kRingSlots; ++i) (void)submit(i);
  std::jthread closer([this] { server_->close(Error{ErrorCode::refused, "no room for ever"}); });
  const auto room = client_->wait_for_room(kForever);
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(room->error().code, ErrorCode::refused);
  const auto answer = client_->submit({}, nullptr);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::refused);
  EXPECT_EQ(answer.error().message, "no room for ever");
}

TEST_F(RingClientTest, AServiceThatIsGoneIsHeard) {
  const auto entry = submit(0);
  std::jthread end([this] { server_.reset(); });  // the last write end of the pipe
  const auto answer = client_->wait(entry, kForever);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->error().code, ErrorCode::unavailable);
  EXPECT_EQ(client_->submit({}, nullptr).error().code, ErrorCode::unavailable);
}

TEST_F(RingClientTest, AnAbandonedRingWaitsForNobody) {
  const auto entry = submit(0);
  std::jthread end([this] { client_->abandon(Error{ErrorCode::unavailable, "closed here"}); });
  EXPECT_EQ(client_->wait(entry, kForever)->error().message, "closed here");
}

}  // namespace
}  // namespace laneway::service
