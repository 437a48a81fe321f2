#include "lanes/state/counted.h"

#include <algorithm>

namespace laneway::lanes {

bool is_counted(const CoreState& core, LaneId lane) {
  const policies::LaneView* view = core.view.lane(lane);
  return view != nullptr &&
         std::any_of(view->jobs.begin(), view->jobs.end(),
                     [](const policies::JobView* job) { return is_counted(*job); });
}

uint32_t counted_lanes(const CoreState& core) {
  const auto counted = std::count_if(core.lanes.begin(), core.lanes.end(),
                                     [&](const Lane& lane) { return is_counted(core, lane.id); });
  return static_cast<uint32_t>(counted);
}

bool takes_more_counted(const CoreState& core) {
  return !core.lane_limit.on() || counted_lanes(core) < core.lane_limit.lanes();
}

bool takes_counted(const CoreState& core, LaneId lane) {
  if (!core.lane_limit.on() || is_counted(core, lane)) return true;
  return takes_more_counted(core);
}

}  // namespace laneway::lanes
