// Shows that a recovery memory's keys have their former piece, the new one or none wherever the
// writer died, that pieces never overlap, and that nobody reads what another owner wrote.
#include "service/journal/recovery_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "base/check.h"
#include "tests/service/journal/single_step.h"

namespace laneway::service {
namespace {

class MemoryFile {
 public:
  explicit MemoryFile(Bytes size)
      : size_(size), descriptor_(::memfd_create("laneway-recovery-test", MFD_CLOEXEC)) {
    LW_CHECK(::ftruncate(descriptor_, size.count()) == 0, "memory for a test");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // As a successor has it.
  std::unique_ptr<RecoveryMemory> take_over() const {
    auto memory = RecoveryMemory::map(descriptor_, size_).value();
    LW_CHECK(memory->take_over().ok(), "it is a recovery memory");
    return memory;
  }
  int descriptor() const { return descriptor_; }

 private:
  const Bytes size_;
  const int descriptor_;
};

constexpr PieceKey kLog{.kind = PieceKind::undo_log, .owner = 3, .number = 0};
constexpr PieceKey kSnapshot{.kind = PieceKind::snapshot, .owner = 3, .number = 0};

bool is_all(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte one) { return one == static_cast<std::byte>(value); });
}

void fill(std::span<std::byte> bytes, int value) { std::memset(bytes.data(), value, bytes.size()); }

TEST(RecoveryMemory, PiecesOutliveTheirWriter) {
  const MemoryFile file(mib(8));
  {
    const auto memory = file.take_over();
    EXPECT_TRUE(memory->find(kLog).empty());
    fill(memory->add(kLog, Bytes(5000)).value(), 7);
    fill(memory->add(kSnapshot, kib(64)).value(), 8);
    (void)memory->make({PieceKind::plan, 3, 1}, kib(4)).value();  // and never published
    const Bytes used = memory->used();
    memory->release({PieceKind::plan, 9, 1});
    EXPECT_EQ(memory->used(), used);
  }
  const auto memory = file.take_over();
  EXPECT_EQ(memory->find(kLog).size(), 8192U) << "in pages";
  EXPECT_TRUE(is_all(memory->find(kLog), 7));
  EXPECT_TRUE(is_all(memory->find(kSnapshot), 8));
  EXPECT_EQ(memory->keys(), (std::vector<PieceKey>{kLog, kSnapshot}));
  memory->release_all(PieceKind::snapshot, 3);
  EXPECT_TRUE(memory->find(kSnapshot).empty());
  EXPECT_TRUE(is_all(memory->add({PieceKind::snapshot, 4, 0}, kib(64)).value(), 0))
      << "another job does not read what the first one wrote";
}

TEST(RecoveryMemory, NoDescriptorOfItGoesToAProgramThatIsStarted) {
  const MemoryFile file(mib(8));
  const auto memory = file.take_over();
  struct stat wanted {};
  ASSERT_EQ(::fstat(file.descriptor(), &wanted), 0);
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || status.st_ino != wanted.st_ino) continue;
    if (status.st_dev != wanted.st_dev) continue;
    ++seen;
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0) << descriptor;
  }
  EXPECT_EQ(seen, 2) << "the file's, and the memory's own";
}

TEST(RecoveryMemory, ShowsWhatIsInUseToThoseWhoLook) {
  const MemoryFile file(mib(8));
  std::atomic<uint64_t> shown{0};
  const auto is_shown = [&](const RecoveryMemory& memory) {
    return static_cast<int64_t>(shown.load()) == memory.used().count();
  };
  uint64_t before = 0;
  {
    const auto memory = RecoveryMemory::map(file.descriptor(), mib(8)).value();
    ASSERT_TRUE(memory->take_over(&shown).ok());
    EXPECT_TRUE(is_shown(*memory));
    before = shown;
    (void)memory->add(kLog, kib(64)).value();
    EXPECT_EQ(shown, before + (64u << 10));
    (void)memory->make(kSnapshot, kib(64)).value();
    EXPECT_TRUE(is_shown(*memory));
    EXPECT_FALSE(memory->add({PieceKind::plan, 3, 1}, mib(64)));
    EXPECT_TRUE(is_shown(*memory));
    memory->discard(kSnapshot);
    EXPECT_EQ(shown, before + (64u << 10));
  }
  const auto successor = RecoveryMemory::map(file.descriptor(), mib(8)).value();
  ASSERT_TRUE(successor->take_over(&shown).ok());
  EXPECT_EQ(shown, before + (64u << 10));
  successor->release(kLog);
  EXPECT_EQ(shown, before);
}

TEST(RecoveryMemory, WhatHasNoRoomIsRefusedWithTheLimit) {
  const MemoryFile file(mib(4));
  const auto memory = file.take_over();
  const auto refused = memory->add(kLog, mib(4));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(refused.error().message.find("4 MiB"), std::string::npos);
  EXPECT_NE(refused.error().message.find("--recovery-memory"), std::string::npos);
  ASSERT_TRUE(memory->add(kLog, mib(1)));
  ASSERT_FALSE(memory->add(kLog, mib(3))) << "the former piece stays until the new one is there";
  EXPECT_EQ(memory->find(kLog).size(), static_cast<size_t>(mib(1).count()));
  EXPECT_LE(memory->used(), memory->size());
}

TEST(RecoveryMemory, RefusesWhatIsNone) {
  const MemoryFile small(kib(64));
  EXPECT_FALSE(RecoveryMemory::map(small.descriptor(), kib(64)));
  const MemoryFile file(mib(4));
  EXPECT_FALSE(RecoveryMemory::map(file.descriptor(), mib(8)));
  LW_CHECK(::pwrite(file.descriptor(), "other", 5, 0) == 5, "it is a file");
  auto memory = RecoveryMemory::map(file.descriptor(), mib(4)).value();
  EXPECT_EQ(memory->take_over().error().code, ErrorCode::invalid_argument);
}

// Entries that lie outside, overlap, or name no kind are dropped, and nothing else.
TEST(RecoveryMemory, ADirectoryOfGarbageIsNotBelieved) {
  for (int value : {1, 2, 0x7f, 0xff}) {
    const MemoryFile file(mib(4));
    (void)file.take_over();
    std::vector<unsigned char> garbage(mib(1).count() / 2, static_cast<unsigned char>(value));
    LW_CHECK(::pwrite(file.descriptor(), garbage.data(), garbage.size(), 64) > 0, "it is a file");
    const auto memory = file.take_over();
    EXPECT_TRUE(memory->keys().empty());
    EXPECT_TRUE(memory->add(kLog, kib(64)));
  }
}

TEST(RecoveryMemory, ADeathAtAnyInstructionLeavesTheFormerPieceOrTheNew) {
  const MemoryFile file(mib(4));
  const auto writer = file.take_over();
  fill(writer->add(kLog, kib(4)).value(), 1);
  const Bytes before = writer->used();
  std::set<size_t> sizes;
  int step = 0;
  const bool traced = testing::single_step(
      [&] {
        auto made = writer->make(kLog, kib(8));
        fill(made.value(), 2);
        writer->publish(kLog);
      },
      [&] {
        if (++step % 16 != 0) return;  // a successor repairs; it is asked often enough
        const MemoryFile copy(mib(4));
        std::vector<std::byte> bytes(static_cast<size_t>(mib(4).count()));
        LW_CHECK(::pread(file.descriptor(), bytes.data(), bytes.size(), 0) > 0, "it is a file");
        LW_CHECK(::pwrite(copy.descriptor(), bytes.data(), bytes.size(), 0) > 0, "it is a file");
        const auto successor = copy.take_over();
        const auto piece = successor->find(kLog);
        sizes.insert(piece.size());
        EXPECT_TRUE(is_all(piece, piece.size() == 4096 ? 1 : 2));
        EXPECT_EQ(successor->used(), before + Bytes(static_cast<int64_t>(piece.size()) - 4096));
      });
  if (!traced) GTEST_SKIP() << "this system does not let a test trace its child";
  EXPECT_EQ(sizes, (std::set<size_t>{4096, 8192}));
}

}  // namespace
}  // namespace laneway::service
