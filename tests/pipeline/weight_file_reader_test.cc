// Shows that an image gets the bytes of the files that its client opened, and zeros around them;
// and that files which were changed, cut short or damaged, and descriptors that are none of regular
// files, are refused in words.
#include "pipeline/weight_file_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "memory/host_pool_access.h"
#include "pipeline/initial_image.h"

namespace laneway::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr size_t kFileBytes = (size_t{3} << 20) + 77;  // more than two pieces
constexpr uint64_t kSlotBytes = (uint64_t{2} << 20) + 13;

class WeightFileReaderTest : public ::testing::Test {
 protected:
  WeightFileReaderTest() : path_(::testing::TempDir() + "weights-" + std::to_string(::getpid())) {
    for (size_t i = 0; i < content_.size(); ++i)
      content_[i] = static_cast<std::byte>(i * 7 + i / 999);
    const memory::OwnedDescriptor made(
        ::open(path_.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600));
    EXPECT_EQ(::write(made.get(), content_.data(), content_.size()),
              static_cast<ssize_t>(content_.size()));
  }
  ~WeightFileReaderTest() override { ::unlink(path_.c_str()); }

  std::vector<memory::OwnedDescriptor> opened(int flags = O_RDONLY) const {
    std::vector<memory::OwnedDescriptor> all;
    all.emplace_back(::open(path_.c_str(), flags | O_CLOEXEC));
    return all;
  }
  // As it is now.
  WeightFiles described(std::vector<FileRange> ranges) const {
    struct stat now {};
    EXPECT_EQ(::stat(path_.c_str(), &now), 0);
    return {.files = {{.name = "a.weights",
                       .bytes = static_cast<uint64_t>(now.st_size),
                       .modified_ns =
                           int64_t{now.st_mtim.tv_sec} * 1'000'000'000 + now.st_mtim.tv_nsec}},
            .ranges = std::move(ranges)};
  }
  FileRange most(uint64_t file_offset = 31) const {
    FileRange range{
        .slot = 1, .slot_offset = 5, .file_offset = file_offset, .bytes = kSlotBytes - 9};
    range.has_crc32 = true;
    range.crc32 = static_cast<uint32_t>(
        ::crc32_z(0, reinterpret_cast<const Bytef*>(content_.data()) + file_offset, range.bytes));
    return range;
  }
  Result<WeightFileReader> reader(std::vector<FileRange> ranges) const {
    return WeightFileReader::make(slots_, described(std::move(ranges)), opened());
  }
  // All bytes of an image with those files.
  Status load(
      WeightFileReader files, const GoesOn& goes_on = [](Bytes) { return true; }) {
    const std::array<const void*, 3> given = {first_.data(), nullptr, nullptr};
    InitialImage initial(slots_, given);
    initial.set_files(std::move(files));
    memory::HostPoolAccess pool;
    return initial.write_to(pool, image_.data(), Bytes(static_cast<int64_t>(image_.size())),
                            layout_, goes_on);
  }
  void damage(off_t at) const {
    const std::vector<memory::OwnedDescriptor> file = opened(O_RDWR);
    ASSERT_EQ(::pwrite(file[0].get(), "?", 1, at), 1);
  }

  const std::string path_;
  std::vector<std::byte> content_ = std::vector<std::byte>(kFileBytes);
  const std::vector<ImageSlot> slots_ = {
      {.name = "first", .kind = SlotKind::parameter, .bytes = 100},
      {.name = "second", .kind = SlotKind::parameter, .bytes = kSlotBytes},
      {.name = "third", .kind = SlotKind::buffer, .bytes = 8},
  };
  const std::array<uint32_t, 3> order_ = {1, 0, 2};
  const ImageLayout layout_{slots_, order_, 64};
  const std::vector<std::byte> first_ = std::vector<std::byte>(100, std::byte{1});
  std::vector<std::byte> image_ = std::vector<std::byte>(kSlotBytes + 1024, std::byte{0xee});
};

TEST_F(WeightFileReaderTest, AnImageGetsTheBytesAndZerosAround) {
  const FileRange range = most();
  const Status loaded = load(reader({range}).value());
  ASSERT_TRUE(loaded) << loaded.error().message;
  std::vector<std::byte> expected(image_.size());
  std::memcpy(expected.data() + layout_.offset(0).count(), first_.data(), first_.size());
  std::memcpy(expected.data() + layout_.offset(1).count() + range.slot_offset,
              content_.data() + range.file_offset, range.bytes);
  EXPECT_TRUE(image_ == expected);
}

TEST_F(WeightFileReaderTest, ASlotMayBeInPieces) {
  const FileRange a{.slot = 1, .slot_offset = 0, .file_offset = 500, .bytes = 10};
  const FileRange b{.slot = 1, .slot_offset = 20, .file_offset = 3, .bytes = 7};
  ASSERT_TRUE(load(reader({a, b}).value()));
  const std::byte* const slot = image_.data() + layout_.offset(1).count();
  EXPECT_EQ(std::memcmp(slot, content_.data() + 500, 10), 0);
  EXPECT_EQ(slot[10], std::byte{0});
  EXPECT_EQ(std::memcmp(slot + 20, content_.data() + 3, 7), 0);
  EXPECT_EQ(slot[27], std::byte{0});
}

TEST_F(WeightFileReaderTest, DamagedBytesAreRefusedByTheirChecksum) {
  const FileRange range = most();
  damage(2'000'000);  // before the client looked: nothing else tells of it
  const Status refused = load(reader({range}).value());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::failed);
  EXPECT_THAT(refused.error().message, HasSubstr("slot 'second'"));
  EXPECT_THAT(refused.error().message, HasSubstr("'a.weights'"));
  EXPECT_THAT(refused.error().message, HasSubstr("CRC-32"));
}

TEST_F(WeightFileReaderTest, AFileThatIsWrittenToMeanwhileIsRefused) {
  FileRange range = most();
  range.has_crc32 = false;
  auto files = reader({range}).value();
  const timespec other[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 1, .tv_nsec = 0}};
  bool written = false;
  const Status refused = load(std::move(files), [&](Bytes) {
    if (!std::exchange(written, true)) {
      damage(2'500'000);
      EXPECT_EQ(::utimensat(AT_FDCWD, path_.c_str(), other, 0), 0);  // coarse clocks
    }
    return true;
  });
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("'a.weights' was written to"));
}

TEST_F(WeightFileReaderTest, AFileThatIsCutShortIsRefused) {
  auto files = reader({most()}).value();
  ASSERT_EQ(::truncate(path_.c_str(), 1'500'000), 0);
  const Status refused = load(std::move(files));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("ends at byte 1500000"));
}

TEST_F(WeightFileReaderTest, StopsWhenTheImageIsNotWanted) {
  int asked = 0;
  const Status stopped = load(reader({most()}).value(), [&asked](Bytes) { return ++asked < 2; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  EXPECT_EQ(asked, 2);
}

TEST_F(WeightFileReaderTest, OnlyRegularFilesThatCanBeReadAreTaken) {
  const WeightFiles weights = described({most()});
  for (const int flags : {O_WRONLY, O_PATH}) {
    const auto refused = WeightFileReader::make(slots_, weights, opened(flags));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("'a.weights' is no regular file"));
  }
  for (const char* other : {"/dev/zero", "/proc", "/"}) {
    std::vector<memory::OwnedDescriptor> given;
    given.emplace_back(::open(other, O_RDONLY | O_CLOEXEC));
    EXPECT_FALSE(WeightFileReader::make(slots_, weights, std::move(given))) << other;
  }
  EXPECT_FALSE(WeightFileReader::make(slots_, weights, {}));
  std::vector<memory::OwnedDescriptor> none;
  none.emplace_back(-1);
  EXPECT_FALSE(WeightFileReader::make(slots_, weights, std::move(none)));
  FileRange outside = most();
  outside.file_offset = kFileBytes - 10;
  EXPECT_FALSE(reader({outside}));
}

}  // namespace
}  // namespace laneway::pipeline
