#include "tests/service/synthetic/synthetic_lane.h"

#include <cstring>

#include "adaptor/scope/lane_blocks.h"
#include "base/check.h"

namespace laneway::testing {
namespace {

thread_local SyntheticLane* entered = nullptr;

constexpr uint64_t kPrime = 0x100000001b3;  // of FNV-1a

class CompleteIteration final : public lanes::EnqueuedIteration {
 public:
  bool done() const override { return true; }
  Status retire() override { return {}; }
};

}  // namespace

SyntheticLane& SyntheticLane::current() {
  LW_CHECK(entered != nullptr, "operators run in a lane");
  return *entered;
}

std::byte* SyntheticLane::allocate(uint64_t bytes) {
  auto* const memory = static_cast<std::byte*>(arena_->allocate(bytes));
  hash_ = (hash_ ^ reinterpret_cast<uintptr_t>(memory)) * kPrime;
  return memory;
}

void SyntheticLane::free(std::byte* memory) { arena_->free(memory); }

void SyntheticLane::enter(memory::LaneArena& arena, const lanes::NumericContext&) {
  LW_CHECK(entered == nullptr, "a thread is in one lane at a time");
  adaptor::LaneBlocks::instance().add(arena);
  entered = this;
  arena_ = &arena;
  hash_ = 0;
}

void SyntheticLane::leave() {
  adaptor::LaneBlocks::instance().remove(*arena_);
  entered = nullptr;
  arena_ = nullptr;
}

Status SyntheticLane::upload(void* to_device, const void* from_host, Bytes bytes) {
  std::memcpy(to_device, from_host, static_cast<size_t>(bytes.count()));
  return {};
}

Status SyntheticLane::download(void* to_host, const void* from_device, Bytes bytes) {
  std::memcpy(to_host, from_device, static_cast<size_t>(bytes.count()));
  return {};
}

std::unique_ptr<lanes::EnqueuedIteration> SyntheticLane::enqueue() {
  return std::make_unique<CompleteIteration>();
}

}  // namespace laneway::testing
