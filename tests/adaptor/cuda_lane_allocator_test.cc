// Shows which CUDA allocations come from a lane and which from the allocator that was there, and
// that blocks find back to where they came from: on memory of the CPU's given to an arena, with a
// recording allocator in torch's place. No device is needed and no CUDA function is called.
#include "adaptor/cuda/cuda_lane_allocator.h"

#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "adaptor/cuda/forwarding_allocator.h"
#include "adaptor/device/limits.h"
#include "adaptor/host/cpu_lane_allocator.h"
#include "base/limits.h"

namespace laneway::adaptor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

c10::cuda::CUDACachingAllocator::CUDAAllocator& torchs() {
  return *c10::cuda::CUDACachingAllocator::get();
}

// In torch's place: notes what reaches it, and gives ordinary memory.
class Base final : public ForwardingAllocator {
 public:
  Base() : ForwardingAllocator(torchs()) {}

  std::vector<std::string> take_calls() { return std::exchange(calls_, {}); }

  c10::DataPtr allocate(size_t bytes) override {
    note("allocate");
    void* const block = std::malloc(bytes + 1);
    return {block, block, &free_block, c10::Device(c10::DeviceType::CUDA, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void* raw_alloc(size_t bytes) override {
    note("raw_alloc");
    return std::malloc(bytes + 1);
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t) override {
    note("raw_alloc_with_stream");
    return std::malloc(bytes + 1);
  }
  void raw_delete(void* block) override {
    note("raw_delete");
    std::free(block);
  }
  void cacheInfo(c10::DeviceIndex, size_t* largest) override {
    note("cacheInfo");
    *largest = 7;
  }
  void recordStream(const c10::DataPtr&, c10::cuda::CUDAStream) override { note("recordStream"); }
  void* getBaseAllocation(void* block, size_t*) override {
    note("getBaseAllocation");
    return block;
  }
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void*) override {
    note("shareIpcHandle");
    return {0, "handle"};
  }
  void emptyCache(c10::MempoolId_t) override { note("emptyCache"); }
  void beginAllocateToPool(c10::DeviceIndex, c10::MempoolId_t,
                           std::function<bool(cudaStream_t)>) override {
    note("beginAllocateToPool");
  }
  void endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) override { note("endAllocateToPool"); }
  void releasePool(c10::DeviceIndex, c10::MempoolId_t) override { note("releasePool"); }
  void createOrIncrefPool(c10::DeviceIndex, c10::MempoolId_t,
                          std::shared_ptr<CUDAAllocator>) override {
    note("createOrIncrefPool");
  }
  bool initialized() override {
    note("initialized");
    return true;
  }
  std::string name() override { return "base"; }

 private:
  static void free_block(void* block) { std::free(block); }
  void note(const char* call) { calls_.emplace_back(call); }

  std::vector<std::string> calls_;
};

Base& base() {
  static auto* made = [] {
    auto* const first = new Base;  // as long as the process, like torch's
    c10::cuda::CUDACachingAllocator::allocator.store(first);
    install_cuda_lane_allocator();
    return first;
  }();
  return *made;
}

cudaStream_t stream_number(uintptr_t number) { return reinterpret_cast<cudaStream_t>(number << 8); }
const cudaStream_t kStream = stream_number(1);

class CudaLaneAllocatorTest : public ::testing::Test {
 protected:
  CudaLaneAllocatorTest() {
    base().take_calls();
    memory_ =
        static_cast<std::byte*>(std::aligned_alloc(4'096, static_cast<size_t>(kSize.count())));
    arena_.bind(memory_, kSize);
  }
  ~CudaLaneAllocatorTest() override { std::free(memory_); }

  bool in_lane(const void* block) const { return arena_.contains(block); }

  static constexpr Bytes kSize = kib(64);
  std::byte* memory_ = nullptr;
  memory::LaneArena arena_{limits::kCudaAlignment};
};

TEST_F(CudaLaneAllocatorTest, ABoundThreadGetsItsLanesMemoryAndNothingReachesTorch) {
  const CudaLaneBinding binding(arena_, 3, kStream);
  arena_.begin_probe();
  {
    const c10::DataPtr first = torchs().allocate(1'000);
    const c10::DataPtr second = torchs().allocate(1);
    const c10::DataPtr none = torchs().allocate(0);
    EXPECT_TRUE(in_lane(first.get()));
    EXPECT_TRUE(in_lane(second.get()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(second.get()) % limits::kCudaAlignment, 0u);
    EXPECT_EQ(first.device(), c10::Device(c10::DeviceType::CUDA, 3));
    EXPECT_EQ(first.get(), first.get_context());
    EXPECT_EQ(none.get(), nullptr);
    EXPECT_EQ(none.device(), first.device());
    void* const raw = torchs().raw_alloc(10);
    void* const of_stream = torchs().raw_alloc_with_stream(10, kStream);
    EXPECT_TRUE(in_lane(raw));
    EXPECT_TRUE(in_lane(of_stream));
    torchs().raw_delete(raw);
    torchs().raw_deleter()(of_stream);
    torchs().raw_delete(nullptr);
  }
  EXPECT_EQ(arena_.end().live_count, 0u);
  EXPECT_THAT(base().take_calls(), IsEmpty());
}

TEST_F(CudaLaneAllocatorTest, TorchAsksTheSameAllocatorByEitherWay) {
  base();
  EXPECT_EQ(c10::GetAllocator(c10::DeviceType::CUDA), &torchs());
  EXPECT_NE(&torchs(), &base());
}

TEST_F(CudaLaneAllocatorTest, EveryOtherThreadIsLeftToTorch) {
  const CudaLaneBinding binding(arena_, 0, kStream);
  arena_.begin_probe();
  std::thread([&] {
    const c10::DataPtr block = torchs().allocate(1'000);
    EXPECT_FALSE(in_lane(block.get()));
    void* const raw = torchs().raw_alloc_with_stream(10, stream_number(9));
    EXPECT_FALSE(in_lane(raw));
    torchs().raw_delete(raw);
    size_t largest = 0;
    torchs().cacheInfo(0, &largest);
    EXPECT_EQ(largest, 7u);
  }).join();
  EXPECT_THAT(base().take_calls(),
              ElementsAre("allocate", "raw_alloc_with_stream", "raw_delete", "cacheInfo"));
  arena_.end();
}

TEST_F(CudaLaneAllocatorTest, WhatTorchKeepsIsLentToIt) {
  const CudaLaneBinding binding(arena_, 0, kStream);
  arena_.begin_probe();
  std::byte own[100];
  std::vector<size_t> asked;
  {
    const LentMemory lent(3, [&](size_t bytes) {
      asked.push_back(bytes);
      return own;
    });
    {
      const LentMemory within(3, [](size_t) { return nullptr; });
      EXPECT_EQ(torchs().allocate(50).get(), nullptr);
    }
    const c10::DataPtr block = torchs().allocate(100);  // its end frees nothing
    EXPECT_EQ(block.get(), own);
    EXPECT_EQ(block.device(), c10::Device(c10::DeviceType::CUDA, 3));
    std::thread([&] { EXPECT_NE(torchs().allocate(10).get(), own); }).join();
  }
  EXPECT_THAT(asked, ElementsAre(100u));
  EXPECT_TRUE(in_lane(torchs().allocate(100).get()));
  EXPECT_EQ(arena_.end().live_count, 0u);
  EXPECT_THAT(base().take_calls(), ElementsAre("allocate"));
}

// torch.compile's CUDA graphs compare a block's deleter with the allocator's, and used to stop at
// the first tensor of a process with a service.
TEST_F(CudaLaneAllocatorTest, BlocksOfOtherThreadsHaveTheDeleterThatTorchAsksFor) {
  EXPECT_EQ(torchs().allocate(10).get_deleter(), torchs().raw_deleter());
  const CudaLaneBinding binding(arena_, 0, kStream);
  std::thread([&] {
    EXPECT_EQ(torchs().allocate(10).get_deleter(), torchs().raw_deleter());
  }).join();
  EXPECT_NE(torchs().raw_deleter(), base().raw_deleter());
}

TEST_F(CudaLaneAllocatorTest, AnotherThreadMayFreeABlock) {
  const CudaLaneBinding binding(arena_, 0, kStream);
  arena_.begin_probe();
  c10::DataPtr block = torchs().allocate(1'000);
  std::thread([&] { block.clear(); }).join();
  EXPECT_EQ(arena_.end().live_count, 0u);
  EXPECT_THAT(base().take_calls(), IsEmpty());
}

// cuDNN's callers catch torch's own out-of-memory error and try another algorithm.
TEST_F(CudaLaneAllocatorTest, WhatDoesNotFitIsNotTorchsOutOfMemory) {
  const CudaLaneBinding binding(arena_, 0, kStream);
  arena_.begin_probe();
  const auto too_much = static_cast<size_t>(kSize.count()) + 1;
  EXPECT_THROW((void)torchs().allocate(too_much), OutOfLane);
  EXPECT_THROW((void)torchs().raw_alloc(too_much), OutOfLane);
  static_assert(!std::is_base_of_v<c10::Error, OutOfLane>);
  arena_.abandon();
  EXPECT_THAT(base().take_calls(), IsEmpty());
}

TEST_F(CudaLaneAllocatorTest, TheHashIsOfAddressesInTheirOrder) {
  std::vector<uint64_t> hashes;
  for (const size_t second : {1'000u, 1'000u, 2'000u}) {
    const CudaLaneBinding binding(arena_, 0, kStream);
    arena_.begin_probe();
    {
      const c10::DataPtr a = torchs().allocate(second);
      const c10::DataPtr b = torchs().allocate(10);
    }
    arena_.end();
    hashes.push_back(binding.address_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was refused";
}

TEST_F(CudaLaneAllocatorTest, BlocksOfALaneAreOfItsStreamAlone) {
  const c10::cuda::CUDAStream own = c10::cuda::getStreamFromExternal(kStream, 0);
  const c10::cuda::CUDAStream other = c10::cuda::getStreamFromExternal(stream_number(2), 0);
  const CudaLaneBinding binding(arena_, 0, kStream);
  arena_.begin_probe();
  {
    const c10::DataPtr block = torchs().allocate(1'000);
    torchs().recordStream(block, own);
    EXPECT_THAT(refusal([&] { torchs().recordStream(block, other); }),
                HasSubstr("used on another stream"));
    std::thread([&] {
      EXPECT_THAT(refusal([&] { torchs().recordStream(block, own); }),
                  HasSubstr("used on another stream"));
    }).join();
    EXPECT_THAT(refusal([&] { torchs().raw_alloc_with_stream(10, stream_number(2)); }),
                HasSubstr("another stream"));
    EXPECT_THAT(refusal([&] { torchs().getBaseAllocation(block.get(), nullptr); }),
                HasSubstr("shared with other processes"));
    EXPECT_THAT(refusal([&] { torchs().shareIpcHandle(block.get()); }),
                HasSubstr("copy the tensor first"));
    EXPECT_THAT(base().take_calls(), IsEmpty());
    c10::DataPtr torch_block;
    std::thread([&] { torch_block = torchs().allocate(10); }).join();
    torchs().recordStream(torch_block, other);
    torchs().getBaseAllocation(torch_block.get(), nullptr);
    torchs().shareIpcHandle(torch_block.get());
    EXPECT_THAT(base().take_calls(),
                ElementsAre("allocate", "recordStream", "getBaseAllocation", "shareIpcHandle"));
  }
  arena_.end();
}

TEST_F(CudaLaneAllocatorTest, LibrariesAreToldAConstant) {
  const CudaLaneBinding binding(arena_, 0, kStream);
  size_t largest = 0;
  torchs().cacheInfo(0, &largest);
  EXPECT_EQ(largest, static_cast<size_t>(limits::kMaxLibraryWorkspace.count()));
  EXPECT_THAT(base().take_calls(), IsEmpty());
}

TEST_F(CudaLaneAllocatorTest, ABlockThatOutlivesItsIterationIsKnownUntilItIsFreed) {
  c10::DataPtr kept;
  {
    const CudaLaneBinding binding(arena_, 0, kStream);
    arena_.begin_probe();
    kept = torchs().allocate(1'000);
    EXPECT_EQ(arena_.end().live_count, 1u);
  }
  EXPECT_EQ(cuda_blocks_escaped_within(memory_, kSize), 1u);
  EXPECT_THAT(refusal([&] { torchs().shareIpcHandle(kept.get()); }), HasSubstr("of a lane"));
  void* const where = kept.get();
  {
    const CudaLaneBinding binding(arena_, 0, kStream);
    arena_.begin_probe();
    EXPECT_NE(torchs().allocate(1'000).get(), where);
    arena_.end();
  }
  std::thread([&] { kept.clear(); }).join();
  EXPECT_EQ(cuda_blocks_escaped_within(memory_, kSize), 0u);
}

TEST_F(CudaLaneAllocatorTest, WhatCapturesAndPoolsOfTheUsersNeedReachesTorch) {
  base();
  torchs().emptyCache();
  torchs().createOrIncrefPool(0, {1, 0});
  torchs().beginAllocateToPool(0, {1, 0}, [](cudaStream_t) { return true; });
  torchs().endAllocateToPool(0, {1, 0});
  torchs().releasePool(0, {1, 0});
  EXPECT_TRUE(torchs().initialized());
  EXPECT_EQ(torchs().name(), "base");
  EXPECT_THAT(base().take_calls(),
              ElementsAre("emptyCache", "createOrIncrefPool", "beginAllocateToPool",
                          "endAllocateToPool", "releasePool", "initialized"));
}

}  // namespace
}  // namespace laneway::adaptor
