// What brokers have held: kept under keys in the order of their coming, bounded, and closed when it
// is released.
#include "service/supervisor/held_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "service/supervisor/limits.h"

namespace laneway::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> keys(const HeldTable& table) {
  std::vector<std::string> all;
  for (const auto& entry : table.entries()) all.push_back(entry.key);
  return all;
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

TEST(HeldTable, KeepsTheOrderOfComingAndReplacesInPlace) {
  HeldTable table;
  for (const char* key : {"s/1", "j/1", "l/1/1"}) ASSERT_TRUE(table.hold({key, {1, 2}, {}}).ok());
  EXPECT_THAT(keys(table), ElementsAre("s/1", "j/1", "l/1/1"));
  ASSERT_TRUE(table.hold({"j/1", {9}, {}}).ok());
  EXPECT_THAT(keys(table), ElementsAre("s/1", "j/1", "l/1/1"));
  EXPECT_THAT(std::next(table.entries().begin())->note, ElementsAre(9));
  EXPECT_TRUE(table.release("j/1"));
  EXPECT_FALSE(table.release("j/1"));
  EXPECT_THAT(keys(table), ElementsAre("s/1", "l/1/1"));
  EXPECT_EQ(table.bytes(), 3u + 2 + 5 + 2);
}

TEST(HeldTable, ClosesWhatIsReplacedOrReleased) {
  HeldTable table;
  const int first = ::dup(0);
  const int second = ::dup(0);
  std::vector<Descriptor> fds;
  fds.emplace_back(first);
  ASSERT_TRUE(table.hold({"a", {}, std::move(fds)}).ok());
  EXPECT_TRUE(is_open(first));
  std::vector<Descriptor> more;
  more.emplace_back(second);
  ASSERT_TRUE(table.hold({"a", {}, std::move(more)}).ok());
  EXPECT_FALSE(is_open(first));
  EXPECT_TRUE(is_open(second));
  table.release("a");
  EXPECT_FALSE(is_open(second));
}

TEST(HeldTable, BoundsAreRefusedWithTheLimitAndChangeNothing) {
  HeldTable table;
  ASSERT_TRUE(table.hold({"a", {1}, {}}).ok());
  const Status empty = table.hold({"", {}, {}});
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code, ErrorCode::refused);
  const Status long_key = table.hold({std::string(limits::kMaxHeldKeyBytes + 1, 'k'), {}, {}});
  ASSERT_FALSE(long_key.ok());
  EXPECT_THAT(long_key.error().message,
              HasSubstr("limit of " + std::to_string(limits::kMaxHeldKeyBytes)));
  const Status note = table.hold({"a", std::vector<uint8_t>(limits::kMaxHeldNoteBytes + 1), {}});
  ASSERT_FALSE(note.ok());
  EXPECT_THAT(note.error().message, HasSubstr("'a'"));
  EXPECT_THAT(keys(table), ElementsAre("a"));
  EXPECT_THAT(table.entries().front().note, ElementsAre(1));
}

std::vector<Descriptor> open_files(int count) {
  std::vector<Descriptor> fds;
  for (int i = 0; i < count; ++i) fds.emplace_back(::dup(0));
  return fds;
}

TEST(HeldTable, OpenFilesAreBoundedAndARefusedEntryIsClosed) {
  HeldTable table(5);
  ASSERT_TRUE(table.hold({"a", {1}, open_files(3)}).ok());
  std::vector<Descriptor> three = open_files(3);
  const int first = three.front().get();
  const Status refused = table.hold({"b", {}, std::move(three)});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::refused);
  EXPECT_THAT(refused.error().message, HasSubstr("open files in all 6 is over the limit of 5"));
  EXPECT_FALSE(is_open(first));
  EXPECT_THAT(keys(table), ElementsAre("a"));
  ASSERT_TRUE(table.hold({"b", {}, open_files(2)}).ok());
  EXPECT_EQ(table.descriptors(), 5u);
  EXPECT_TRUE(table.hold({"a", {}, open_files(2)}).ok()) << "fewer than before";
  EXPECT_TRUE(table.release("b"));
  EXPECT_EQ(table.descriptors(), 2u);
}

TEST(HeldTable, AnotherNoteKeepsTheFirstDescriptorsAndClosesTheRest) {
  HeldTable table(3);
  std::vector<Descriptor> fds = open_files(3);
  const int first = fds[0].get();
  const int last = fds[2].get();
  ASSERT_TRUE(table.hold({"a", {1}, std::move(fds)}).ok());
  ASSERT_TRUE(table.renote("a", {2, 3}, 3).ok());
  EXPECT_THAT(table.entries().front().note, ElementsAre(2, 3));
  EXPECT_TRUE(is_open(last));
  EXPECT_EQ(table.bytes(), 3u);
  ASSERT_TRUE(table.renote("a", {}, 1).ok());
  EXPECT_TRUE(is_open(first));
  EXPECT_FALSE(is_open(last));
  EXPECT_EQ(table.descriptors(), 1u);
  ASSERT_TRUE(table.renote("b", {1}, 0).ok()) << "what was refused is not there";
  EXPECT_THAT(keys(table), ElementsAre("a"));
  EXPECT_FALSE(table.renote("a", std::vector<uint8_t>(limits::kMaxHeldNoteBytes + 1), 1).ok());
  EXPECT_THAT(table.entries().front().note, ElementsAre());
}

TEST(HeldTable, TheNumberOfKeysIsBounded) {
  HeldTable table;
  for (uint32_t i = 0; i < limits::kMaxHeldKeys; ++i) {
    ASSERT_TRUE(table.hold({std::to_string(i), {}, {}}).ok());
  }
  EXPECT_FALSE(table.hold({"one more", {}, {}}).ok());
  EXPECT_TRUE(table.hold({"7", {1}, {}}).ok());
  EXPECT_TRUE(table.release("8"));
  EXPECT_TRUE(table.hold({"one more", {}, {}}).ok());
}

}  // namespace
}  // namespace laneway::service
