// Shows that kills are known by the growth of the kernel's count, for some seconds, and that a file
// that is not there, or has no such count, tells nothing.
#include "service/supervisor/memory_pressure.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace laneway::service {
namespace {

TimePoint at(int64_t s) { return TimePoint(seconds(s).ns()); }

class MemoryPressureTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  void count(uint64_t kills) const {
    std::ofstream(file_) << "nr_free_pages 17\noom_kill " << kills << "\npgfault 9\n";
  }

  const std::string file_ = testing::TempDir() + "vmstat";
  MemoryPressure pressure_{file_};
};

TEST_F(MemoryPressureTest, KnowsOfKillsBetweenTwoLooks) {
  count(3);
  pressure_.look(at(1));
  EXPECT_FALSE(pressure_.killed_lately(at(1))) << "those were before";
  count(4);
  EXPECT_FALSE(pressure_.killed_lately(at(2)));
  pressure_.look(at(2));
  EXPECT_TRUE(pressure_.killed_lately(at(2)));
  pressure_.look(at(3));
  EXPECT_TRUE(pressure_.killed_lately(at(12)));
  EXPECT_FALSE(pressure_.killed_lately(at(13))) << "long ago";
}

TEST_F(MemoryPressureTest, WhatCannotBeReadTellsNothing) {
  pressure_.look(at(1));
  EXPECT_FALSE(pressure_.killed_lately(at(1)));
  count(3);
  pressure_.look(at(2));
  EXPECT_FALSE(pressure_.killed_lately(at(2)));
  std::ofstream(file_) << "oom_kill many\n";
  pressure_.look(at(3));
  count(4);
  pressure_.look(at(4));
  EXPECT_TRUE(pressure_.killed_lately(at(4)));
}

}  // namespace
}  // namespace laneway::service
