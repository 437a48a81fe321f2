#include "adaptor/lane_scope.h"

#include "base/check.h"

namespace laneway::adaptor {
namespace {

thread_local DeviceLane* entered = nullptr;

}  // namespace

DeviceLane* current_lane() { return entered; }

LaneScope::LaneScope(DeviceLane& lane, memory::LaneArena& arena,
                     const lanes::NumericContext& context)
    : lane_(lane) {
  LW_CHECK(entered == nullptr, "a thread is in one lane at a time");
  lane_.enter(arena, context);
  entered = &lane_;
}

LaneScope::~LaneScope() {
  entered = nullptr;
  lane_.leave();
}

}  // namespace laneway::adaptor
