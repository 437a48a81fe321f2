// Shows the crank: nothing happens before it is turned, one turn is one piece of work, streams keep
// their order, and what waits for an event does not run before it, whatever the order of turning.
#include "tests/support/synthetic_device.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

TEST(SyntheticDevice, NothingRunsBeforeTheCrankIsTurned) {
  SyntheticDevice device;
  const auto stream = device.create_stream().value();
  const auto mark = device.create_event().value();
  std::vector<int> ran;
  ASSERT_TRUE(stream->host_function([&] { ran.push_back(1); }).ok());
  ASSERT_TRUE(stream->record(*mark).ok());
  ASSERT_TRUE(stream->host_function([&] { ran.push_back(2); }).ok());
  EXPECT_EQ(device.pending(*stream), 3u);
  EXPECT_EQ(mark->query(), EventState::pending);
  EXPECT_TRUE(ran.empty());
  ASSERT_TRUE(device.run_one(*stream));
  EXPECT_EQ(ran, std::vector<int>{1});
  EXPECT_EQ(mark->query(), EventState::pending);
  ASSERT_TRUE(device.run_one(*stream));
  EXPECT_EQ(mark->query(), EventState::done);
  EXPECT_EQ(device.run_all(), 1u);
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
  EXPECT_FALSE(device.run_one(*stream));
}

TEST(SyntheticDevice, AWaitingStreamDoesNotMove) {
  SyntheticDevice device;
  const auto first = device.create_stream().value();
  const auto second = device.create_stream().value();
  const auto mark = device.create_event().value();
  bool ran = false;
  ASSERT_TRUE(first->record(*mark).ok());
  ASSERT_TRUE(second->wait(*mark).ok());
  ASSERT_TRUE(second->host_function([&] { ran = true; }).ok());
  EXPECT_FALSE(device.run_one(*second));
  EXPECT_TRUE(device.run_one(*first));
  EXPECT_TRUE(device.run_one(*second));  // the wait itself
  EXPECT_FALSE(ran);
  EXPECT_TRUE(device.run_one(*second));
  EXPECT_TRUE(ran);
}

TEST(SyntheticDevice, SynchronizingAnEventRunsOnlyWhatIsNeededBeforeIt) {
  int ran = 0;  // outlives the stream, whose end runs what is left
  SyntheticDevice device;
  const auto stream = device.create_stream().value();
  const auto mark = device.create_event().value();
  ASSERT_TRUE(stream->host_function([&] { ++ran; }).ok());
  ASSERT_TRUE(stream->record(*mark).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream->host_function([&] { ++ran; }).ok());
  ASSERT_TRUE(mark->synchronize().ok());
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(device.pending(*stream), 5u);
}

TEST(SyntheticDevice, AnyOrderOfTurningKeepsEventsAndStreams) {
  Random random(testing::seed_from_environment(31));
  for (int round = 0; round < 50; ++round) {
    SyntheticDevice device;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(device.create_stream().value());
    std::vector<int> ran;
    int expected = 0;
    auto previous = device.create_event().value();
    for (int i = 0; i < 30; ++i) {  // a chain across random streams has one possible order
      Stream& on = *streams[random.below(3)];
      ASSERT_TRUE(on.wait(*previous).ok());
      ASSERT_TRUE(on.host_function([&ran, i] { ran.push_back(i); }).ok());
      ASSERT_TRUE(on.record(*previous).ok());
    }
    while (device.run_any(random)) continue;
    for (const int i : ran) EXPECT_EQ(i, expected++);
    EXPECT_EQ(expected, 30);
  }
}

}  // namespace
}  // namespace laneway::memory
