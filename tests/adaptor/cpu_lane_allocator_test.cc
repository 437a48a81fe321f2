// Shows whose memory torch's CPU allocations get: a bound thread's lane, everybody else's former
// allocator; that blocks find their way back from any thread and through both deleters; and that
// running out of a lane is an exception that leaves everything usable.
#include "adaptor/host/cpu_lane_allocator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "adaptor/scope/lane_blocks.h"
#include "tests/adaptor/graph_rig.h"

namespace laneway::adaptor {
namespace {

class CpuLaneAllocator : public ::testing::Test {
 protected:
  void SetUp() override {
    install_cpu_lane_allocator();
    arena_.bind(memory_.data(), Bytes(static_cast<int64_t>(memory_.size())));
    arena_.begin_probe();
  }
  bool in_lane(const at::Tensor& tensor) const { return arena_.contains(tensor.const_data_ptr()); }

  testing::AlignedBytes memory_{1 << 16};
  memory::LaneArena arena_{64};
};

TEST_F(CpuLaneAllocator, ServesTheBoundThreadOutOfItsLane) {
  EXPECT_FALSE(in_lane(at::ones({10})));
  {
    const LaneBinding binding(arena_);
    const at::Tensor tensor = at::ones({10});
    EXPECT_TRUE(in_lane(tensor));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 64, 0U);
    bool other_in_lane = true;
    std::thread([&] { other_in_lane = in_lane(at::ones({10})); }).join();
    EXPECT_FALSE(other_in_lane);
  }
  EXPECT_FALSE(in_lane(at::ones({10})));
  const auto use = arena_.end();
  EXPECT_EQ(use.allocations, 1U);
  EXPECT_EQ(use.live_count, 0U);
}

TEST_F(CpuLaneAllocator, TakesBlocksBackFromOtherThreads) {
  {
    const LaneBinding binding(arena_);
    for (int round = 0; round < 100; ++round) {
      // Each would fit once: without the frees of the other threads the lane were full.
      at::Tensor tensor = at::ones({8000});
      ASSERT_TRUE(in_lane(tensor));
      std::thread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
    }
  }
  EXPECT_EQ(arena_.end().live_count, 0U);
}

TEST_F(CpuLaneAllocator, LetsTheOthersFreeTheirOwnWhileBound) {
  at::Tensor before = at::ones({10});
  {
    const LaneBinding binding(arena_);
    before.reset();
  }
  EXPECT_EQ(arena_.end().allocations, 0U);
}

TEST_F(CpuLaneAllocator, ServesRawPointersOfBothKinds) {
  c10::Allocator* allocator = c10::GetCPUAllocator();
  ASSERT_NE(allocator->raw_deleter(), nullptr);  // oneDNN asks
  void* outside = allocator->raw_allocate(100);
  {
    const LaneBinding binding(arena_);
    void* inside = allocator->raw_allocate(100);
    EXPECT_TRUE(arena_.contains(inside));
    EXPECT_FALSE(arena_.contains(outside));
    allocator->raw_deallocate(outside);
    std::thread([&] { allocator->raw_deallocate(inside); }).join();
    void* empty = allocator->raw_allocate(0);
    EXPECT_FALSE(arena_.contains(empty));
    allocator->raw_deallocate(empty);
  }
  EXPECT_EQ(arena_.end().live_count, 0U);
}

TEST_F(CpuLaneAllocator, TakesNothingForNothing) {
  {
    const LaneBinding binding(arena_);
    const at::Tensor empty = at::empty({0, 5});
    EXPECT_FALSE(in_lane(empty));
  }
  EXPECT_EQ(arena_.end().allocations, 0U);
}

TEST_F(CpuLaneAllocator, ThrowsWhenTheLaneIsFullAndGoesOn) {
  {
    const LaneBinding binding(arena_);
    const at::Tensor kept = at::ones({100});
    EXPECT_THROW(at::ones({1 << 16}), OutOfLane);
    EXPECT_TRUE(in_lane(at::ones({100})));
    EXPECT_EQ(kept.sum().item<float>(), 100.0F);
  }
  EXPECT_EQ(arena_.abandon().live_count, 0U);
}

TEST_F(CpuLaneAllocator, ABlockThatOutlivesItsIterationIsFreedLaterWithoutHarm) {
  arena_.end();
  at::Tensor kept;
  const auto iterate = [&](int64_t count) {
    const LaneBinding binding(arena_);
    arena_.begin_probe();
    at::Tensor mine = at::ones({count});
    EXPECT_FALSE(kept.defined() && kept.is_alias_of(mine));
    if (!kept.defined()) {
      kept = mine;
    } else {
      EXPECT_TRUE(in_lane(mine));
      EXPECT_NE(kept.const_data_ptr(), mine.const_data_ptr());
    }
    mine.reset();
    return arena_.end();
  };
  const auto first = iterate(100);
  EXPECT_EQ(first.live_count - first.older_count, 1U);
  EXPECT_EQ(LaneBlocks::instance().escaped_within(memory_.data(), Bytes(1 << 16)), 1U);
  // What comes behind is not charged with it, and gets nothing where it lies.
  const auto second = iterate(100);
  EXPECT_EQ(second.live_count - second.older_count, 0U);
  // Nor when the lane moves so that the block is in its middle, or outside of it.
  arena_.bind(memory_.data() + 64 * 100, Bytes(1 << 12));
  EXPECT_EQ(iterate(8).live_count, 0U);
  EXPECT_EQ(LaneBlocks::instance().escaped_within(memory_.data(), Bytes(1 << 16)), 1U);
  arena_.bind(memory_.data(), Bytes(1 << 16));
  EXPECT_EQ(kept.sum().item<float>(), 100.0F);
  kept.reset();
  EXPECT_EQ(LaneBlocks::instance().escaped_within(memory_.data(), Bytes(1 << 16)), 0U);
  kept = at::ones({1});  // not the lane's
  const LaneBinding binding(arena_);
  arena_.begin_probe();
  EXPECT_TRUE(in_lane(at::ones({1 << 13})));
  EXPECT_EQ(arena_.end().live_count, 0U);
}

TEST_F(CpuLaneAllocator, ABlockThatOutlivedItsIterationIsFreedInsideALaterOne) {
  arena_.end();
  at::Tensor kept;
  for (const bool by_another_thread : {false, true}) {
    {
      const LaneBinding binding(arena_);
      arena_.begin_probe();
      kept = at::ones({100});
      arena_.end();
    }
    const LaneBinding binding(arena_);
    arena_.begin_probe();
    if (by_another_thread) {
      std::thread([moved = std::move(kept)]() mutable { moved.reset(); }).join();
    } else {
      kept.reset();
    }
    EXPECT_EQ(arena_.end().live_count, 0U);
  }
  EXPECT_EQ(LaneBlocks::instance().escaped_within(memory_.data(), Bytes(1 << 16)), 0U);
}

TEST_F(CpuLaneAllocator, HashesAddresses) {
  const auto hash_of = [&](int64_t first, int64_t second) {
    const LaneBinding binding(arena_);
    const at::Tensor a = at::empty({first});
    const at::Tensor b = at::empty({second});
    return binding.address_hash();
  };
  EXPECT_EQ(hash_of(100, 200), hash_of(100, 200));
  EXPECT_NE(hash_of(100, 200), hash_of(200, 100));
  EXPECT_EQ(arena_.end().live_count, 0U);
}

TEST_F(CpuLaneAllocator, KeepsLanesOfTwoThreadsApart) {
  testing::AlignedBytes other_memory(1 << 16);
  memory::LaneArena other_arena(64);
  other_arena.bind(other_memory.data(), Bytes(1 << 16));
  std::atomic<int> ready{0};
  const auto work = [&ready](memory::LaneArena& arena) {
    arena.begin_probe();
    {
      const LaneBinding binding(arena);
      ++ready;
      while (ready < 2) std::this_thread::yield();
      for (int i = 0; i < 2000; ++i) {
        const at::Tensor tensor = at::ones({1 + i % 50});
        ASSERT_TRUE(arena.contains(tensor.const_data_ptr()));
      }
    }
    EXPECT_EQ(arena.end().live_count, 0U);
  };
  arena_.end();
  std::thread other([&] { work(other_arena); });
  work(arena_);
  other.join();
}

}  // namespace
}  // namespace laneway::adaptor
