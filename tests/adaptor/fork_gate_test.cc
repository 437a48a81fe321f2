// Shows that a child is never made while a thread is inside torch for a job: threads keep two
// figures equal outside of their uses and unequal inside, and every child looks. And that the
// allocator's books are whole in the child, whoever frees while it is made.
#include "adaptor/scope/fork_gate.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "adaptor/host/cpu_lane_allocator.h"
#include "tests/adaptor/graph_rig.h"

namespace laneway::adaptor {
namespace {

int code_of(pid_t child) {
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkGate, NoThreadIsInsideTorchInAChild) {
  struct Figures {
    std::atomic<uint64_t> before{0};
    std::atomic<uint64_t> after{0};
  };
  std::vector<Figures> all(3);
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (Figures& figures : all) {
    threads.emplace_back([&] {
      while (!enough) {
        const TorchUse use;
        ++figures.before;
        std::this_thread::yield();
        ++figures.after;
      }
    });
  }
  for (const Figures& figures : all) {
    while (figures.after == 0) std::this_thread::yield();
  }
  // Two threads that fork, at the same time too.
  const auto fork_often = [&] {
    for (int round = 0; round < 100; ++round) {
      const pid_t child = ::fork();
      if (child == 0) {
        int wrong = 0;
        for (const Figures& figures : all) wrong += figures.before != figures.after ? 1 : 0;
        { const TorchUse use; }  // the child's own are let in
        ::_exit(wrong);
      }
      ASSERT_EQ(code_of(child), 0);
    }
  };
  std::thread other(fork_often);
  fork_often();
  other.join();
  enough = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(ForkGate, AChildAllocatesAndFreesWhateverOtherThreadsDid) {
  install_cpu_lane_allocator();
  testing::AlignedBytes memory(1 << 16);
  memory::LaneArena arena(64);
  arena.bind(memory.data(), Bytes(1 << 16));
  std::atomic<bool> enough{false};
  std::atomic<uint64_t> rounds{0};
  std::thread lane([&] {
    while (!enough) {
      const TorchUse use;
      const LaneBinding binding(arena);
      arena.begin_probe();
      EXPECT_TRUE(arena.contains(at::ones({10}).const_data_ptr()));
      arena.end();
      ++rounds;
    }
  });
  std::thread outside([&] {
    c10::Allocator* allocator = c10::GetCPUAllocator();
    while (!enough) allocator->raw_deallocate(allocator->raw_allocate(100));
  });
  while (rounds == 0) std::this_thread::yield();
  for (int round = 0; round < 100; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      c10::Allocator* allocator = c10::GetCPUAllocator();
      for (int i = 0; i < 10; ++i) allocator->raw_deallocate(allocator->raw_allocate(100));
      ::_exit(at::ones({10}).sum().item<float>() == 10 ? 0 : 1);
    }
    ASSERT_EQ(code_of(child), 0);
  }
  enough = true;
  lane.join();
  outside.join();
}

}  // namespace
}  // namespace laneway::adaptor
