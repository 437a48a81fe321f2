// A spill file has no name and all of its space, gives back what was written wherever it lies, is
// shared by its descriptor, and says what is wrong with the folder, the size or the file.
#include "memory/os/spill_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace laneway::memory {
namespace {

using testing::HasSubstr;

class SpillFileTest : public testing::Test {
 protected:
  SpillFileTest() { std::filesystem::create_directories(folder_); }
  ~SpillFileTest() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = testing::TempDir() + "spill-" + std::to_string(::getpid());
};

TEST_F(SpillFileTest, HasItsSpaceAndNoName) {
  const auto made = SpillFile::create(folder_, mib(3));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  struct stat status {};
  ASSERT_EQ(::fstat(made.value().descriptor(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, mib(3).count());
}

TEST_F(SpillFileTest, GivesBackWhatWasWrittenAlsoToAnotherProcess) {
  auto made = SpillFile::create(folder_, mib(1));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::string text = "an image, or a part of it";
  const Bytes size(static_cast<int64_t>(text.size()));
  ASSERT_TRUE(made.value().write(Bytes(777), text.data(), size).ok());
  const auto other = SpillFile::attach(::dup(made.value().descriptor()), mib(1));
  ASSERT_TRUE(other.ok()) << other.error().message;
  std::string read(text.size(), ' ');
  ASSERT_TRUE(other.value().read(Bytes(777), read.data(), size).ok());
  EXPECT_EQ(read, text);
}

TEST_F(SpillFileTest, RefusesRangesOutsideAndNoticesThatItWasCutShort) {
  auto made = SpillFile::create(folder_, Bytes(4096));
  ASSERT_TRUE(made.ok()) << made.error().message;
  std::vector<char> bytes(100);
  const Bytes size(100);
  EXPECT_EQ(made.value().read(Bytes(4000), bytes.data(), size).error().code, ErrorCode::internal);
  EXPECT_EQ(made.value().write(Bytes(-1), bytes.data(), size).error().code, ErrorCode::internal);
  ASSERT_EQ(::ftruncate(made.value().descriptor(), 50), 0);
  EXPECT_THAT(made.value().read(Bytes(0), bytes.data(), size).error().message,
              HasSubstr("cut short"));
}

TEST_F(SpillFileTest, SaysWhatIsWrong) {
  const auto nowhere = SpillFile::create(folder_ + "/none", mib(1));
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(nowhere.error().message, HasSubstr("/none"));
  EXPECT_FALSE(SpillFile::create(folder_, Bytes(0)).ok());
  const auto huge = SpillFile::create(folder_, gib(int64_t{1} << 20));
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory);
  EXPECT_FALSE(SpillFile::attach(::open("/dev/null", O_RDWR), mib(1)).ok());
}

}  // namespace
}  // namespace laneway::memory
