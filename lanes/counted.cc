#include "lanes/counted.h"

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

bool takes_counted(const CoreState& core, LaneId lane) {
  if (!core.lane_limit.on() || is_counted(core, lane)) return true;
  return counted_lanes(core) < core.lane_limit.lanes();
}

}  // namespace laneway::lanes
