// Shows that the worker's side of a ring takes requests in order, gives answers in order, wakes who
// waits and nobody else, goes on where a predecessor stopped, and that a client who writes anything
// at all anywhere into the memory can do no more than spoil its own ring.
#include "service/transport/ring_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

// A ring's memory with the descriptors of both sides, and the client's part played by hand.
class Ring {
 public:
  Ring() : memory_(memory::SharedMemory::create("ring-test", Bytes(kRingBytes)).value()) {
    static const bool ignored = ::signal(SIGPIPE, SIG_IGN) != SIG_ERR;
    LW_CHECK(ignored, "the signal can be ignored");
    format_ring(ring());
    int ends[2] = {-1, -1};
    LW_CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe for a test");
    doorbell_read_ = Descriptor(ends[0]);
    doorbell_write_ = Descriptor(ends[1]);
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }

  RingMemory& ring() { return *reinterpret_cast<RingMemory*>(memory_.data()); }
  std::atomic<uint64_t>* words() {
    return reinterpret_cast<std::atomic<uint64_t>*>(memory_.data());
  }

  Result<std::unique_ptr<RingServer>> attach() {
    return RingServer::attach(Descriptor(::dup(memory_.descriptor())), wake_.duplicate().value(),
                              doorbell_write_.duplicate().value());
  }
  void submit(RingKind kind = RingKind::iteration, uint64_t offset = 0) {
    const uint64_t sequence = ring().header.submitted.load();
    RingSlot& slot = ring().slot(sequence);
    slot.kind = static_cast<uint32_t>(kind);
    slot.graph = static_cast<uint32_t>(sequence);
    slot.segment = 3;
    slot.claim = static_cast<uint32_t>(RingClaim::open);
    slot.offset = offset;
    ring().header.submitted.store(sequence + 1);
  }
  // How often the doorbell was rung since the last call.
  size_t doorbells() {
    std::vector<char> strokes(100'000);
    const ssize_t count = ::read(doorbell_read_.get(), strokes.data(), strokes.size());
    return count < 0 ? 0 : static_cast<size_t>(count);
  }
  void close_doorbell() { doorbell_read_.reset(); }

 private:
  memory::SharedMemory memory_;
  Descriptor doorbell_read_, doorbell_write_, wake_;
};

void answer(RingServer& server, uint64_t sequence, const Status& status = {}) {
  server.answer(sequence, status, Duration(70));
  server.publish(sequence);
}

TEST(RingServer, TakesAndAnswersInOrderAllTheWayRound) {
  Ring ring;
  auto server = ring.attach().value();
  EXPECT_FALSE(server->take());
  uint64_t next = 0;
  for (int round = 0; round < 5; ++round) {
    // Full, then empty.
    for (uint32_t i = 0; i < kRingSlots - static_cast<uint32_t>(round); ++i) {
      ring.submit(RingKind::iteration, uint64_t{64} * i);
    }
    for (uint32_t i = 0; i < kRingSlots - static_cast<uint32_t>(round); ++i) {
      EXPECT_TRUE(server->ready());
      EXPECT_EQ(server->next_kind(), RingKind::iteration);
      const auto request = server->take();
      ASSERT_TRUE(request);
      EXPECT_EQ(request->sequence, next);
      EXPECT_EQ(request->graph, static_cast<uint32_t>(next));
      EXPECT_EQ(request->segment, 3U);
      EXPECT_EQ(request->offset, 64 * i);
      EXPECT_FALSE(request->cancelled);
      answer(*server, next);
      EXPECT_EQ(ring.ring().header.done.load(), ++next);
    }
    EXPECT_FALSE(server->ready());
    EXPECT_FALSE(server->take());
  }
  EXPECT_FALSE(server->broken());
  EXPECT_EQ(ring.doorbells(), 0U) << "nobody waited";
}

TEST(RingServer, SaysWhatWentWrong) {
  Ring ring;
  auto server = ring.attach().value();
  ring.submit();
  ring.submit();
  server->take();
  answer(*server, 0, Error{ErrorCode::out_of_memory, std::string(5000, 'x')});
  server->take();
  answer(*server, 1);
  RingSlot& slot = ring.ring().slot(0);
  EXPECT_EQ(ring_error(slot.status.load()), ErrorCode::out_of_memory);
  EXPECT_EQ(slot.text.load(slot.text_bytes.load()), std::string(2000, 'x'));
  EXPECT_EQ(slot.took_ns.load(), 70);
  EXPECT_EQ(ring.ring().slot(1).status.load(), 0U);
}

TEST(RingServer, WakesWhoWaits) {
  Ring ring;
  auto server = ring.attach().value();
  ring.submit();
  ring.submit();
  server->take();
  ring.ring().header.client_waits = 1;
  answer(*server, 0);
  EXPECT_EQ(ring.doorbells(), 1U);
  ring.ring().header.client_waits = 0;
  EXPECT_FALSE(server->arm()) << "a request is there";
  EXPECT_EQ(ring.ring().header.worker_waits.load(), 0U);
  server->take();
  answer(*server, 1);
  EXPECT_EQ(ring.doorbells(), 0U);
  EXPECT_TRUE(server->arm());
  EXPECT_EQ(ring.ring().header.worker_waits.load(), 1U);
  server->disarm();
  EXPECT_EQ(ring.ring().header.worker_waits.load(), 0U);
}

TEST(RingServer, ADoorbellThatNobodyHearsDoesNotStopIt) {
  Ring ring;
  auto server = ring.attach().value();
  ring.ring().header.client_waits = 1;
  const auto serve = [&](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
      ring.submit();
      ASSERT_TRUE(server->take());
      answer(*server, i);
    }
  };
  serve(0, 70'000);  // more than the pipe holds
  EXPECT_GT(ring.doorbells(), 1'000U);
  ring.close_doorbell();
  serve(70'000, 70'010);
}

TEST(RingServer, WhoComesFirstDecidesACancellation) {
  Ring ring;
  auto server = ring.attach().value();
  ring.submit();
  ring.submit();
  ring.ring().slot(0).claim = static_cast<uint32_t>(RingClaim::cancelled);
  EXPECT_TRUE(server->take()->cancelled);
  answer(*server, 0, Error{ErrorCode::cancelled, "its client did not want it any more"});
  EXPECT_FALSE(server->take()->cancelled);
  EXPECT_EQ(ring.ring().slot(1).claim.load(), static_cast<uint32_t>(RingClaim::taken));
  // The worker dies; its successor runs what was taken again.
  server.reset();
  server = ring.attach().value();
  EXPECT_EQ(server->done(), 1U);
  const auto again = server->take();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->sequence, 1U);
  EXPECT_FALSE(again->cancelled);
}

TEST(RingServer, TellsOnceWhyItWasClosed) {
  Ring ring;
  auto server = ring.attach().value();
  server->close({ErrorCode::failed, "an operator failed"});
  server->close({ErrorCode::cancelled, "it was closed"});
  const RingHeader& header = ring.ring().header;
  EXPECT_TRUE(server->closed());
  EXPECT_EQ(ring_error(header.closed_code.load()), ErrorCode::failed);
  EXPECT_EQ(header.closed_text.load(header.closed_bytes.load()), "an operator failed");
  EXPECT_EQ(ring.doorbells(), 1U);
}

TEST(RingServer, RefusesWhatIsNoRing) {
  Ring ring;
  ring.ring().header.version = kRingVersion + 1;
  auto refused = ring.attach();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  ring.ring().header.version = kRingVersion;
  ring.ring().header.slots = 1u << 31;
  EXPECT_FALSE(ring.attach());
  ring.ring().header.slots = kRingSlots;
  EXPECT_TRUE(ring.attach());
  const auto small = memory::SharedMemory::create("ring-test", Bytes(4096)).value();
  EXPECT_FALSE(RingServer::attach(Descriptor(::dup(small.descriptor())),
                                  Descriptor(::eventfd(0, 0)), Descriptor(::eventfd(0, 0))));
}

TEST(RingServer, ABrokenCounterEndsTheRing) {
  Ring ring;
  auto server = ring.attach().value();
  ring.ring().header.submitted = kRingSlots + 1;
  EXPECT_FALSE(server->take());
  EXPECT_TRUE(server->broken());
  ring.ring().header.submitted = 1;
  EXPECT_FALSE(server->take()) << "it stays so";
  EXPECT_FALSE(server->ready());
}

// A client that writes at random, into all of the memory or (the second form) only where it does
// most harm, while the worker takes, answers, arms and closes.
class Hostile : public ::testing::TestWithParam<bool> {};

TEST_P(Hostile, CanOnlySpoilItsOwnRing) {
  const uint64_t seed = testing::seed_from_environment(1);
  uint64_t taken = 0;
  for (uint64_t round = 0; round < 30; ++round) {
    Ring ring;
    auto server = ring.attach().value();
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> writes{0};
    std::thread client([&] {
      Random random(seed + round);
      RingHeader& header = ring.ring().header;
      for (; !stop.load(); ++writes) {
        if (GetParam()) {
          ring.words()[random.below(kRingBytes / sizeof(uint64_t))].store(random.next());
          continue;
        }
        RingSlot& slot = ring.ring().ring[random.below(kRingSlots)];
        slot.kind.store(static_cast<uint32_t>(random.below(3)));
        slot.claim.store(static_cast<uint32_t>(random.below(4)));
        header.submitted.store(header.done.load() + random.below(kRingSlots));
        header.client_waits.store(static_cast<uint32_t>(random.below(2)));
      }
    });
    uint64_t expected = server->done();
    // The client may have written all of its share before this thread looks once.
    for (int looks = 0; writes.load() < 20'000 || looks < 1'000;) {
      if (writes.load() > 0) ++looks;
      if (const auto request = server->take()) {
        EXPECT_EQ(request->sequence, expected);
        EXPECT_LE(static_cast<uint32_t>(request->kind), 2U);
        answer(*server, expected++, Error{ErrorCode::failed, "a sentence of some length"});
        ++taken;
      }
      if (server->arm()) server->disarm();
    }
    server->close({ErrorCode::refused, "the client broke its ring"});
    stop = true;
    client.join();
  }
  if (!GetParam()) {
    EXPECT_GT(taken, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(RingServer, Hostile, ::testing::Bool());

}  // namespace
}  // namespace laneway::service
