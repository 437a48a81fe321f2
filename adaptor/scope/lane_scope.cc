#include "adaptor/scope/lane_scope.h"

#include "base/check.h"

namespace laneway::adaptor {
namespace {

thread_local DeviceLane* entered = nullptr;
thread_local memory::LaneArena* entered_arena = nullptr;

}  // namespace

DeviceLane* current_lane() { return entered; }

memory::LaneArena* current_arena() { return entered_arena; }

LaneScope::LaneScope(DeviceLane& lane, memory::LaneArena& arena,
                     const lanes::NumericContext& context)
    : use_(std::in_place), lane_(lane), context_(context) {
  LW_CHECK(entered == nullptr, "a thread is in one lane at a time");
  lane_.enter(arena, context);
  entered = &lane_;
  entered_arena = &arena;
}

void LaneScope::suspend() {
  lane_.suspend();
  use_.reset();
}

void LaneScope::resume() {
  use_.emplace();
  lane_.resume(context_);
}

LaneScope::~LaneScope() {
  entered = nullptr;
  entered_arena = nullptr;
  lane_.leave();
}

}  // namespace laneway::adaptor
