// Shows that a trace keeps the last records in order and counts the lost ones, that its text is
// readable, and that records appended and read by many threads at once are whole: each carries a
// pattern over all its fields that a torn record would break.
#include "base/trace.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "base/limits.h"

namespace laneway {
namespace {

TraceRecord patterned(uint16_t thread, int64_t n) {
  return {
      n, TraceKind::iteration_ended, thread, static_cast<uint32_t>(n * 3), n * 1'000'003 + thread,
      ~n};
}

TEST(Trace, KeepsEverythingUntilTheRingIsFull) {
  Trace trace(8);
  EXPECT_EQ(trace.read().records.size(), 0u);
  for (int64_t n = 0; n < 8; ++n) trace.append(patterned(1, n));
  const Trace::Contents contents = trace.read();
  EXPECT_EQ(contents.lost, 0u);
  ASSERT_EQ(contents.records.size(), 8u);
  for (int64_t n = 0; n < 8; ++n) EXPECT_EQ(contents.records[size_t(n)], patterned(1, n));
}

TEST(Trace, OverwritesTheOldestAndCountsThem) {
  Trace trace(8);
  for (int64_t n = 0; n < 29; ++n) trace.append(patterned(1, n));
  const Trace::Contents contents = trace.read();
  EXPECT_EQ(contents.lost, 21u);
  EXPECT_EQ(trace.appended(), 29u);
  ASSERT_EQ(contents.records.size(), 8u);
  for (int64_t n = 0; n < 8; ++n) EXPECT_EQ(contents.records[size_t(n)], patterned(1, n + 21));
}

TEST(Trace, CapacityIsAPowerOfTwoWithinTheLimit) {
  EXPECT_EQ(Trace(0).capacity(), 1u);
  EXPECT_EQ(Trace(100).capacity(), 128u);
  EXPECT_EQ(Trace(UINT32_MAX).capacity(), limits::kMaxTraceRecords);
}

TEST(Trace, TextNamesWhatHappened) {
  Trace trace(4);
  trace.append(TimePoint(1'000), TraceKind::region_opened, LaneId(2), JobId(), 64, 4096);
  trace.append(TimePoint(1'000'001'500), TraceKind::turn_granted, LaneId(2), JobId(7), 5, 0);
  trace.append({2'000'001'000, static_cast<TraceKind>(999), 0, 0, -1, 2});
  EXPECT_EQ(trace_text(trace.read()),
            "+0.000000000 region_opened lane=2 64 4096\n"
            "+1.000000500 turn_granted lane=2 job=7 5 0\n"
            "+2.000000000 kind_999 -1 2\n");
  for (int i = 0; i < 4; ++i) trace.append({});
  EXPECT_EQ(trace_text(trace.read()).substr(0, 15), "3 records lost\n");
}

TEST(Trace, RecordsOfManyThreadsAreWholeAndInEachThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int64_t kEach = 20'000;
  Trace trace(64);  // small: threads overtake each other and the reader
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (uint16_t thread = 1; thread <= kThreads; ++thread) {
    threads.emplace_back([&trace, &running, thread] {
      for (int64_t n = 0; n < kEach; ++n) trace.append(patterned(thread, n));
      --running;
    });
  }
  const auto check = [](const Trace::Contents& contents) {
    std::map<uint16_t, int64_t> last;
    for (const TraceRecord& record : contents.records) {
      ASSERT_EQ(record, patterned(record.lane, record.time_ns));
      const auto before = last.find(record.lane);
      if (before != last.end()) {
        ASSERT_LT(before->second, record.time_ns);
      }
      last[record.lane] = record.time_ns;
    }
  };
  while (running > 0) check(trace.read());
  for (std::thread& thread : threads) thread.join();
  const Trace::Contents contents = trace.read();
  check(contents);
  EXPECT_EQ(trace.appended(), uint64_t(kThreads * kEach));
  EXPECT_EQ(contents.lost + contents.records.size(), trace.appended());
  EXPECT_EQ(contents.records.size(), 64u);  // nobody writes any more: the ring is whole
}

}  // namespace
}  // namespace laneway
