// Shows that a team is there once it was gathered, with as many threads as asked for, and gone when
// it was ended; that its threads may use every processor that their process may; that more threads
// than processors wait for nobody; and that one that was just used is left alone. (Where the
// threads are is the kernel's matter a moment later.)
#include "adaptor/scope/thread_team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>

namespace laneway::adaptor {
namespace {

std::set<std::string> tasks() {
  std::set<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    found.insert(task.path().filename());
  }
  return found;
}

int processors_of(pid_t task) {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(task, sizeof set, &set), 0);
  return CPU_COUNT(&set);
}

// What the thread of a lane does, so that it has no team before, and none stays.
class ThreadTeam : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ThreadTeam, IsThereFromItsStartToItsEnd) {
  std::thread lane([threads = GetParam()] {
    const std::set<std::string> before = tasks();
    for (int round = 0; round < 20; ++round) {
      gather_thread_team(TimePoint(1), threads);
      size_t count = 0;
      for (const std::string& task : tasks()) {
        if (before.contains(task)) continue;
        ++count;
        EXPECT_EQ(processors_of(std::stoi(task)), processors_of(0)) << "round " << round;
      }
      EXPECT_EQ(count, threads - 1);
      end_thread_team();
      // A thread that has ended is shown for a moment still.
      while (tasks().size() > before.size()) std::this_thread::yield();
    }
    EXPECT_EQ(tasks(), before);
  });
  lane.join();
}

TEST_P(ThreadTeam, ThatIsThereIsGatheredAsItIs) {
  std::thread lane([threads = GetParam()] {
    gather_thread_team(TimePoint(1), threads);
    const std::set<std::string> before = tasks();
    for (int64_t at = 1; at <= 50; ++at) {
      thread_team_used(TimePoint(at * 1'000'000));
      gather_thread_team(TimePoint((at + 1) * 1'000'000), threads);
    }
    EXPECT_EQ(tasks(), before);
    end_thread_team();
  });
  lane.join();
}

TEST(ThreadTeamUse, ThatWasJustUsedIsLeftAlone) {
  std::thread lane([] {
    const std::set<std::string> before = tasks();
    thread_team_used(TimePoint(5'000'000));
    gather_thread_team(TimePoint(5'999'999), 2);
    EXPECT_EQ(tasks(), before) << "whether there is one is not asked";
    gather_thread_team(TimePoint(6'000'000), 2);
    EXPECT_EQ(tasks().size(), before.size() + 1);
    end_thread_team();
  });
  lane.join();
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadTeam, ::testing::Values(1u, 2u, 3u, 16u));

}  // namespace
}  // namespace laneway::adaptor
