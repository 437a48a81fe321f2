// Shows that iterations in flight retire in their order, that the times which they had to
// themselves add up to the time that passed, and that a failure is told, with iterations that take
// as long as the test says.
#include "service/worker/lanes/enqueued_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "adaptor/device/limits.h"

namespace laneway::service {
namespace {

// On the device until a moment of the test's clock, which waiting for it advances.
class OnDevice final : public lanes::EnqueuedIteration {
 public:
  OnDevice(ManualClock& clock, Duration until, Status status = {})
      : clock_(clock), until_(TimePoint() + until), status_(std::move(status)) {}
  bool done() const override { return clock_.now() >= until_; }
  Status retire() override {
    if (!done()) clock_.advance(until_ - clock_.now());
    return status_;
  }

 private:
  ManualClock& clock_;
  const TimePoint until_;
  const Status status_;
};

class EnqueuedQueueTest : public ::testing::Test {
 protected:
  void push(Duration until, Status status = {}) {
    queue_.push({.work = nullptr,
                 .graph = nullptr,
                 .enqueued = std::make_unique<OnDevice>(clock_, until, std::move(status)),
                 .start = clock_.now()});
  }

  ManualClock clock_;
  EnqueuedQueue queue_{clock_};
};

TEST_F(EnqueuedQueueTest, TimesOfWhatRanOneBehindTheOtherAddUp) {
  push(milliseconds(100));
  clock_.advance(milliseconds(10));
  push(milliseconds(150));  // enqueued behind the first, which it waits for
  EXPECT_FALSE(queue_.oldest_is_done());
  const auto first = queue_.retire_oldest();
  EXPECT_EQ(first.took, milliseconds(100));
  EXPECT_FALSE(queue_.oldest_is_done());
  const auto second = queue_.retire_oldest();
  EXPECT_EQ(second.start, TimePoint() + milliseconds(100));
  EXPECT_EQ(second.took, milliseconds(50));
  EXPECT_TRUE(queue_.empty());

  clock_.advance(milliseconds(50));  // nothing was in flight meanwhile
  push(milliseconds(230));
  const auto third = queue_.retire_oldest();
  EXPECT_EQ(third.start, TimePoint() + milliseconds(200));
  EXPECT_EQ(third.took, milliseconds(30));
}

TEST_F(EnqueuedQueueTest, TakesAsManyAsTheLimitAndNoMore) {
  for (size_t i = 0; i < limits::kMaxEnqueued; ++i) {
    EXPECT_FALSE(queue_.full());
    push(Duration());
  }
  EXPECT_TRUE(queue_.full());
  EXPECT_TRUE(queue_.oldest_is_done());
  EXPECT_DEATH(push(Duration()), "only where there is room");
  EXPECT_TRUE(queue_.retire_oldest().status.ok());
  EXPECT_FALSE(queue_.full());
}

TEST_F(EnqueuedQueueTest, AFailureIsOfTheIterationThatFailed) {
  push(milliseconds(1));
  push(milliseconds(2), Error{ErrorCode::device_lost, "it fell off the bus"});
  EXPECT_TRUE(queue_.retire_oldest().status.ok());
  const auto failed = queue_.retire_oldest();
  ASSERT_FALSE(failed.status.ok());
  EXPECT_EQ(failed.status.error().message, "it fell off the bus");
  EXPECT_EQ(failed.took, milliseconds(1));
}

}  // namespace
}  // namespace laneway::service
