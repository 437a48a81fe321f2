#include "adaptor/cuda/cuda_lane_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "adaptor/cuda/forwarding_allocator.h"
#include "adaptor/device/limits.h"
#include "adaptor/host/cpu_lane_allocator.h"
#include "adaptor/scope/lane_blocks.h"
#include "base/check.h"

namespace laneway::adaptor {
namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;

struct Bound {
  memory::LaneArena* arena = nullptr;
  cudaStream_t stream = nullptr;
  c10::DeviceIndex device = 0;
  uint64_t address_hash = 0;

  bool takes() const { return arena != nullptr; }
};
thread_local Bound bound;
thread_local LentMemory* lent = nullptr;

constexpr uint64_t kHashFactor = 0x100000001b3ULL;  // FNV-1a's prime

// A child made by fork() has the addresses of lanes and nothing behind them; what locks were held
// then stay so. It frees nothing.
std::atomic<bool> forked{false};

// The one that torch has, for deleters, which are plain functions.
CUDAAllocator* previous_allocator = nullptr;

// False when the block is no lane's.
bool free_block_of_lane(void* block) {
  if (forked.load(std::memory_order_relaxed)) return true;
  if (bound.arena != nullptr && bound.arena->contains(block)) {
    bound.arena->free(block);
    return true;
  }
  return LaneBlocks::instance().free(block);
}

void free_lane_block(void* block) {
  LW_CHECK(free_block_of_lane(block), "a lane's block is freed twice");
}

// What raw_deallocate gets may come from either side.
void free_any_block(void* block) {
  if (block == nullptr || free_block_of_lane(block)) return;
  previous_allocator->raw_deleter()(block);
}

bool is_of_lane(const void* block) {
  return (bound.arena != nullptr && bound.arena->contains(block)) ||
         (!forked.load(std::memory_order_relaxed) && LaneBlocks::instance().holds(block));
}

// Not torch's out-of-memory error: on that one, cuDNN's callers would try another algorithm, whose
// results differ.
void* allocate_in_lane(size_t bytes) {
  void* const block = bound.arena->allocate(bytes);
  if (block == nullptr) throw OutOfLane();
  bound.address_hash = (bound.address_hash ^ reinterpret_cast<uintptr_t>(block)) * kHashFactor;
  return block;
}

class CudaLaneAllocator final : public ForwardingAllocator {
 public:
  using ForwardingAllocator::ForwardingAllocator;

  c10::DataPtr allocate(size_t bytes) override {
    if (lent != nullptr) return lent->give(bytes);
    if (!bound.takes()) return base_.allocate(bytes);
    const c10::Device device(c10::DeviceType::CUDA, bound.device);
    if (bytes == 0) return {nullptr, nullptr, &free_any_block, device};
    void* const block = allocate_in_lane(bytes);
    return {block, block, &free_lane_block, device};
  }
  // Torch compares it with the deleters of blocks that it looks at, which are the other
  // allocator's where no lane is bound (torch.compile's CUDA graphs do).
  c10::DeleterFnPtr raw_deleter() const override {
    return bound.takes() ? &free_any_block : base_.raw_deleter();
  }

  void* raw_alloc(size_t bytes) override {
    return bound.takes() && bytes != 0 ? allocate_in_lane(bytes) : base_.raw_alloc(bytes);
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    if (!bound.takes() || bytes == 0) return base_.raw_alloc_with_stream(bytes, stream);
    TORCH_CHECK(stream == bound.stream,
                "an operator of a job allocates for another stream than its lane's");
    return allocate_in_lane(bytes);
  }
  void raw_delete(void* block) override {
    if (block != nullptr && !free_block_of_lane(block)) base_.raw_delete(block);
  }

  // A constant, so that what is chosen by it is the same in every lane, however full.
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override {
    if (!bound.takes()) {
      base_.cacheInfo(device, largest);
    } else if (largest != nullptr) {
      *largest = static_cast<size_t>(limits::kMaxLibraryWorkspace.count());
    }
  }
  void* getBaseAllocation(void* block, size_t* size) override {
    refuse_if_of_lane(block, "shared with other processes");
    return base_.getBaseAllocation(block, size);
  }
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* block) override {
    refuse_if_of_lane(block, "shared with other processes");
    return base_.shareIpcHandle(block);
  }
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override {
    const void* const memory = block.get();
    if (memory == nullptr || !is_of_lane(memory)) {
      base_.recordStream(block, stream);
    } else if (bound.arena == nullptr || !bound.arena->contains(memory) ||
               stream.stream() != bound.stream) {
      refuse_if_of_lane(memory, "used on another stream than the lane's");
    }
  }
  using CUDAAllocator::recordStream;

 private:
  static void refuse_if_of_lane(const void* block, const char* use) {
    TORCH_CHECK(!is_of_lane(block), "memory of a lane cannot be ", use,
                ": it belongs to one iteration of one job; copy the tensor first");
  }
};

}  // namespace

void install_cuda_lane_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    LW_CHECK(::pthread_atfork(nullptr, nullptr, [] { forked.store(true); }) == 0,
             "no memory for a handler of fork()");
    std::atomic<CUDAAllocator*>& current = c10::cuda::CUDACachingAllocator::allocator;
    previous_allocator = current.load();
    auto* const own = new CudaLaneAllocator(*previous_allocator);  // as long as the process
    current.store(own);
    c10::SetAllocator(c10::DeviceType::CUDA, own, /*priority=*/1);
  });  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
}

CudaLaneBinding::CudaLaneBinding(memory::LaneArena& arena, c10::DeviceIndex device,
                                 cudaStream_t stream) {
  LW_CHECK(bound.arena == nullptr, "a thread is bound to one lane at a time");
  LaneBlocks::instance().add(arena);
  bound = {&arena, stream, device};
}

uint64_t CudaLaneBinding::address_hash() const { return bound.address_hash; }

CudaLaneBinding::~CudaLaneBinding() {
  LaneBlocks::instance().remove(*bound.arena);
  bound = {};
}

LentMemory::LentMemory(c10::DeviceIndex device, std::function<void*(size_t)> lend)
    : device_(device), lend_(std::move(lend)), before_(std::exchange(lent, this)) {}

LentMemory::~LentMemory() { lent = before_; }

c10::DataPtr LentMemory::give(size_t bytes) {
  void* const memory = lend_(bytes);
  return {memory, memory, [](void*) {}, c10::Device(c10::DeviceType::CUDA, device_)};
}

size_t cuda_blocks_escaped_within(const std::byte* base, Bytes size) {
  return LaneBlocks::instance().escaped_within(base, size);
}

}  // namespace laneway::adaptor
