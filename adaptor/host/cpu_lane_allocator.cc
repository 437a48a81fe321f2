#include "adaptor/host/cpu_lane_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <utility>

#include "adaptor/scope/lane_blocks.h"
#include "base/check.h"

namespace laneway::adaptor {
namespace {

thread_local memory::LaneArena* bound_arena = nullptr;
thread_local uint64_t bound_address_hash = 0;

constexpr uint64_t kHashFactor = 0x100000001b3ULL;  // FNV-1a's prime

c10::Allocator* previous_allocator = nullptr;

void free_lane_block(void* block) {
  if (bound_arena != nullptr && bound_arena->contains(block)) {
    bound_arena->free(block);
    return;
  }
  LW_CHECK(LaneBlocks::instance().free(block), "a lane's block is freed twice");
}

// What raw_deallocate gets may come from either side.
void free_any_block(void* block) {
  if (block == nullptr) return;
  if (bound_arena != nullptr && bound_arena->contains(block)) {
    bound_arena->free(block);
  } else if (!LaneBlocks::instance().free(block)) {
    previous_allocator->raw_deleter()(block);
  }
}

class CpuLaneAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    memory::LaneArena* arena = bound_arena;
    if (arena == nullptr || bytes == 0) return previous_allocator->allocate(bytes);
    void* block = arena->allocate(bytes);
    if (block == nullptr) throw OutOfLane();
    bound_address_hash = (bound_address_hash ^ reinterpret_cast<uintptr_t>(block)) * kHashFactor;
    return {block, block, &free_lane_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_any_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void install_cpu_lane_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    previous_allocator = c10::GetCPUAllocator();
    c10::SetCPUAllocator(new CpuLaneAllocator, /*priority=*/1);  // lives as long as the process
  });  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
}

LaneBinding::LaneBinding(memory::LaneArena& arena) : arena_(arena) {
  LW_CHECK(bound_arena == nullptr, "a thread is bound to one lane at a time");
  LaneBlocks::instance().add(arena);
  bound_arena = &arena;
  bound_address_hash = 0;
}

uint64_t LaneBinding::address_hash() const { return bound_address_hash; }

OutsideCpuLane::OutsideCpuLane() : before_(std::exchange(bound_arena, nullptr)) {}

OutsideCpuLane::~OutsideCpuLane() { bound_arena = before_; }

LaneBinding::~LaneBinding() {
  LaneBlocks::instance().remove(arena_);
  bound_arena = nullptr;
}

}  // namespace laneway::adaptor
