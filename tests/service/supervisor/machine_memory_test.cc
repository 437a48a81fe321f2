// How much memory there is, read from files as the system writes them, and the pool that is made of
// it.
#include "service/supervisor/machine_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/scratch_folder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;

// /proc and /sys of a machine that the test makes up.
class Machine {
 public:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root() + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const std::string& root() const { return folder_.path(); }

 private:
  testing::ScratchFolder folder_;
};

constexpr const char* kMeminfo =
    "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\n";

TEST(MachineMemory, IsWhatTheKernelSays) {
  const Machine machine;
  machine.write("/proc/meminfo", kMeminfo);
  const auto memory = MachineMemory::read(machine.root());
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory.value().total, gib(16));
  EXPECT_EQ(memory.value().free, gib(8));
}

TEST(MachineMemory, IsLessWhereAControlGroupAroundUsAllowsLess) {
  const Machine machine;
  machine.write("/proc/meminfo", kMeminfo);
  machine.write("/proc/self/cgroup", "0::/outer/inner\n");
  machine.write("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  machine.write("/sys/fs/cgroup/outer/inner/memory.current", "5\n");
  machine.write("/sys/fs/cgroup/outer/memory.max", "4294967296\n");
  machine.write("/sys/fs/cgroup/outer/memory.current", "3221225472\n");
  machine.write("/sys/fs/cgroup/outer/memory.stat", "anon 7\ninactive_file 536870912\n");
  const auto memory = MachineMemory::read(machine.root());
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory.value().total, gib(4));
  EXPECT_EQ(memory.value().free, mib(1536));
}

TEST(MachineMemory, AMachineThatDoesNotSayIsAnError) {
  const Machine machine;
  EXPECT_FALSE(MachineMemory::read(machine.root()).ok());
}

TEST(MachineMemory, OfThisMachineIsThere) {
  const auto memory = MachineMemory::read();
  ASSERT_TRUE(memory.ok());
  EXPECT_GT(memory.value().free, mib(1));
  EXPECT_LE(memory.value().free, memory.value().total);
}

TEST(ChoosePool, IsHalfOfWhatIsFreeUnlessToldOtherwise) {
  const MachineMemory memory{.total = gib(16), .free = gib(8)};
  EXPECT_EQ(choose_pool(Bytes(0), Bytes(0), memory).value(), gib(4));
  EXPECT_EQ(choose_pool(gib(7), Bytes(0), memory).value(), gib(7));
  EXPECT_EQ(choose_pool(mib(2) + Bytes(63), Bytes(0), memory).value(), mib(2));
}

TEST(ChoosePool, MoreThanIsFreeIsRefusedWithTheArithmetic) {
  const auto pool = choose_pool(gib(9), Bytes(0), {.total = gib(16), .free = gib(8)});
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, ErrorCode::out_of_memory);
  for (const char* said : {"9 GiB", "16 GiB in all", "8 GiB are free", "--pool 8 GiB or less"}) {
    EXPECT_THAT(pool.error().message, HasSubstr(said));
  }
}

TEST(ChoosePool, NothingLeftForJobsIsRefused) {
  EXPECT_FALSE(choose_pool(Bytes(0), Bytes(0), {.total = gib(1), .free = mib(1)}).ok());
  const auto pool = choose_pool(Bytes(0), gib(4), {.total = gib(16), .free = gib(8)});
  ASSERT_FALSE(pool.ok());
  EXPECT_THAT(pool.error().message, HasSubstr("reserve less"));
}

TEST(ChooseRecovery, IsThePoolsSizeAndAtMostHalfOfTheRest) {
  const MachineMemory memory{.total = gib(16), .free = gib(8)};
  EXPECT_EQ(choose_recovery({}, gib(1), gib(1), memory).value(), gib(1));
  EXPECT_EQ(choose_recovery({}, gib(6), gib(6), memory).value(), gib(1));
  EXPECT_EQ(choose_recovery({}, gib(40), Bytes(), memory).value(), gib(4)) << "a device's pool";
  EXPECT_EQ(choose_recovery(gib(2), gib(6), gib(6), memory).value(), gib(2));
  EXPECT_EQ(choose_recovery(Bytes(), gib(1), gib(1), memory).value(), Bytes()) << "none is wanted";
  EXPECT_EQ(choose_recovery({}, gib(8), gib(8), memory).value(), Bytes()) << "nothing is left";
}

TEST(ChooseRecovery, WhatCannotBeHadIsRefusedWithTheArithmetic) {
  const MachineMemory memory{.total = gib(16), .free = gib(8)};
  const auto more = choose_recovery(gib(3), gib(6), gib(6), memory);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::out_of_memory);
  for (const char* said : {"--recovery-memory 3 GiB", "8 GiB are free", "6 GiB", "2 GiB or less"}) {
    EXPECT_THAT(more.error().message, HasSubstr(said));
  }
  const auto small = choose_recovery(kib(4), gib(1), gib(1), memory);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(small.error().message, HasSubstr("2 MiB"));
}

}  // namespace
}  // namespace laneway::service
