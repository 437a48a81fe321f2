// Shows that an undo log and a redo log hold one true thing wherever their writer died, and that
// what makes no sense in them is not believed.
#include "service/journal/undo_log.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "base/check.h"
#include "service/journal/limits.h"
#include "service/journal/redo_log.h"
#include "service/journal/snapshot.h"
#include "tests/service/journal/single_step.h"

namespace laneway::service {
namespace {

// Memory that a child shares with its parent.
class SharedBytes {
 public:
  explicit SharedBytes(size_t size)
      : bytes_(static_cast<std::byte*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
               size) {
    LW_CHECK(bytes_.data() != MAP_FAILED, "memory for a test");
  }
  ~SharedBytes() { ::munmap(bytes_.data(), bytes_.size()); }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

  std::span<std::byte> all() const { return bytes_; }
  void fill(int value) { std::memset(bytes_.data(), value, bytes_.size()); }

 private:
  const std::span<std::byte> bytes_;
};

constexpr size_t kSlot = 24;

bool is_all(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte one) { return one == static_cast<std::byte>(value); });
}

class UndoLogDeaths : public ::testing::TestWithParam<bool> {};

// Three slots are saved and overwritten, one after the other; whatever instruction was the last,
// restoring gives the bytes of before. Small ones, in the caches; large ones, past them.
TEST_P(UndoLogDeaths, AtAnyInstructionCanBeUndone) {
  const bool streamed = GetParam();
  const size_t slot_bytes = streamed ? limits::kStreamedRange + kSlot : kSlot;
  const SharedBytes memory(8192);
  SharedBytes image(3 * slot_bytes);
  image.fill(7);
  UndoLog log(memory.all());
  log.begin(JobId(4), 9, streamed ? limits::kStreamedLog : Bytes());
  std::set<std::vector<std::byte>> seen;
  const bool traced = testing::single_step(
      [&] {
        for (size_t slot = 0; slot < 3; ++slot) {
          const auto bytes = image.all().subspan(slot * slot_bytes, slot_bytes);
          LW_CHECK(log.save(slot * slot_bytes, bytes), "there is room");
          for (size_t at = 0; at < slot_bytes; at += slot_bytes / kSlot) {  // one by one
            reinterpret_cast<volatile std::byte&>(bytes[at]) = std::byte{8};
          }
        }
      },
      [&] {
        std::vector<std::byte> copy(image.all().begin(), image.all().end());
        seen.insert(copy);
        ASSERT_TRUE(UndoLog(memory.all()).is_of(JobId(4), 9));
        ASSERT_TRUE(UndoLog(memory.all()).restore(copy));
        EXPECT_TRUE(is_all(copy, 7));
      });
  if (!traced) GTEST_SKIP() << "this system does not let a test trace its child";
  EXPECT_GT(seen.size(), 3 * kSlot / 2) << "the slots were seen half-written";
}

INSTANTIATE_TEST_SUITE_P(CachedAndStreamed, UndoLogDeaths, ::testing::Bool());

TEST(UndoLog, BelongsToOneRequest) {
  const SharedBytes memory(4096);
  UndoLog log(memory.all());
  EXPECT_FALSE(log.is_of(JobId(), 0)) << "fresh memory is nobody's";
  log.begin(JobId(4), 9);
  EXPECT_FALSE(log.is_of(JobId(4), 8));
  EXPECT_FALSE(log.is_of(JobId(5), 9));
  EXPECT_TRUE(log.is_of(JobId(4), 9));
  log.forget();
  EXPECT_FALSE(log.is_of(JobId(4), 9));
  EXPECT_FALSE(UndoLog().is_of(JobId(4), 9));
}

TEST(UndoLog, HasRoomForWhatItSaysAndRefusesTheRest) {
  for (size_t ranges = 0; ranges < 6; ++ranges) {
    const auto bytes = static_cast<int64_t>(ranges * kSlot);
    const SharedBytes memory(static_cast<size_t>(UndoLog::room_for(ranges, Bytes(bytes)).count()));
    std::vector<std::byte> slot(kSlot);
    UndoLog log(memory.all());
    log.begin(JobId(1), 1);
    for (size_t i = 0; i < ranges; ++i) EXPECT_TRUE(log.save(0, slot));
    slot.resize(4096);
    EXPECT_FALSE(log.save(0, slot));
  }
}

TEST(UndoLog, GarbageIsNotRestoredOutsideOfTheImage) {
  SharedBytes memory(4096);
  for (int value : {1, 3, 0x40, 0xff}) {
    memory.fill(value);
    std::vector<std::byte> image(64);
    (void)UndoLog(memory.all()).restore(image);
    UndoLog log(memory.all());
    log.begin(JobId(1), 1);
    ASSERT_TRUE(log.save(1000, image));
    EXPECT_FALSE(log.restore(image)) << "the range lies behind the image's end";
  }
}

RedoEntry entry(uint64_t number, std::span<const std::byte> bytes) {
  return {.number = number,
          .graph = 3,
          .random_state = bytes.first(8),
          .inputs = {{.bytes = bytes, .real = 0, .integer = 0},
                     {.bytes = {}, .real = 1.5, .integer = 7}}};
}

class RedoLogDeaths : public ::testing::TestWithParam<bool> {};

TEST_P(RedoLogDeaths, AtAnyInstructionLeaveWholeEntries) {
  const bool streamed = GetParam();
  const SharedBytes memory(streamed ? static_cast<size_t>(limits::kStreamedLog.count()) : 4096);
  const size_t input_bytes = streamed ? limits::kStreamedRange + kSlot : kSlot;
  const std::vector<std::byte> first(input_bytes, std::byte{1});
  const std::vector<std::byte> second(input_bytes, std::byte{2});
  RedoLog log(memory.all());
  log.clear();
  std::set<size_t> counts;
  const bool traced = testing::single_step(
      [&] {
        log.append(entry(10, first));
        log.append(entry(12, second));
      },
      [&] {
        const auto entries = RedoLog(memory.all()).entries();
        counts.insert(entries.size());
        for (size_t i = 0; i < entries.size(); ++i) {
          EXPECT_EQ(entries[i].number, 10 + 2 * i);
          EXPECT_EQ(entries[i].graph, 3U);
          EXPECT_TRUE(is_all(entries[i].random_state, static_cast<int>(i) + 1));
          ASSERT_EQ(entries[i].inputs.size(), 2U);
          EXPECT_EQ(entries[i].inputs[0].bytes.size(), input_bytes);
          EXPECT_TRUE(is_all(entries[i].inputs[0].bytes, static_cast<int>(i) + 1));
          EXPECT_EQ(entries[i].inputs[1].real, 1.5);
          EXPECT_EQ(entries[i].inputs[1].integer, 7);
        }
      });
  if (!traced) GTEST_SKIP() << "this system does not let a test trace its child";
  EXPECT_EQ(counts, (std::set<size_t>{0, 1, 2}));
}

INSTANTIATE_TEST_SUITE_P(CachedAndStreamed, RedoLogDeaths, ::testing::Bool());

TEST(RedoLog, ForgetsWhatDidNotEnd) {
  const SharedBytes memory(4096);
  const std::array<std::byte, kSlot> bytes{};
  RedoLog log(memory.all());
  for (uint64_t number : {4, 5, 7}) log.append(entry(number, bytes));
  log.forget_from(6);
  ASSERT_EQ(log.count(), 2U);
  EXPECT_EQ(log.entries().back().number, 5U);
  log.append(entry(6, bytes));
  EXPECT_EQ(log.entries().back().number, 6U);
  log.forget_from(0);
  EXPECT_TRUE(log.entries().empty());
  EXPECT_EQ(log.used(), Bytes());
}

TEST(RedoLog, SaysWhetherAnEntryHasRoom) {
  const std::array<std::byte, kSlot> bytes{};
  const Bytes one = RedoLog::room_of(entry(1, bytes));
  const SharedBytes memory(static_cast<size_t>(RedoLog::room_for(3, one).count()));
  RedoLog log(memory.all());
  for (uint64_t number = 0; number < 3; ++number) {
    ASSERT_TRUE(log.has_room(one));
    log.append(entry(number, bytes));
  }
  EXPECT_FALSE(log.has_room(one));
  EXPECT_FALSE(RedoLog().has_room(Bytes(1)));
}

TEST(RedoLog, GarbageIsNotBelieved) {
  SharedBytes memory(4096);
  for (int value : {1, 3, 0x40, 0xff}) {
    memory.fill(value);
    const RedoLog log(memory.all());
    EXPECT_LT(log.entries().size(), log.count());
  }
}

TEST(Snapshot, IsNoneWhileItIsTaken) {
  const Bytes size = Snapshot::room_for(Bytes(64));
  const SharedBytes memory(static_cast<size_t>(size.count()));
  Snapshot snapshot(memory.all());
  EXPECT_FALSE(Snapshot().has_memory());
  EXPECT_FALSE(snapshot.number());
  EXPECT_GE(snapshot.bytes().size(), 64U);
  snapshot.begin();
  snapshot.end(0);
  EXPECT_EQ(snapshot.number(), 0U);
  snapshot.begin();
  EXPECT_FALSE(Snapshot(memory.all()).number());
  snapshot.end(12);
  EXPECT_EQ(Snapshot(memory.all()).number(), 12U);
  snapshot.forget();
  EXPECT_FALSE(snapshot.number());
}

}  // namespace
}  // namespace laneway::service
