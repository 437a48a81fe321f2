#include "lanes/turns/turn_account.h"

#include <algorithm>

namespace laneway::lanes {
namespace {

IterationSum without(const IterationSum& whole, const IterationSum& part) {
  return {.count = whole.count - std::min(part.count, whole.count),
          .busy = whole.busy - std::clamp(part.busy, Duration(), whole.busy)};
}

}  // namespace

IterationSum account_for(TimePoint now, Duration open_for, const TurnEnded& ended, Job& job) {
  policies::JobView& view = job.view;
  ++view.turns;
  view.iterations += ended.iterations;
  view.busy += ended.busy;
  const bool has_more = ended.more_ready || job.work_announced || ended.end == TurnEnd::out_of_lane;
  job.unserved = ended.iterations == 0 && has_more;
  if (job.unserved) view.ready_since = view.ready_since + open_for;
  if (ended.iterations == 0) return {};
  const Duration idle = std::clamp(ended.idle, Duration(), now - TimePoint());
  view.used_at = now + idle * -1;
  const bool is_first = view.iterations == ended.iterations;
  if (is_first) job.first_iteration = now + open_for * -1;
  job.last_iteration = view.used_at;
  const IterationSum all{.count = ended.iterations, .busy = std::max(ended.busy, Duration())};
  const IterationSum counted = without(all, ended.uncounted);
  view.counted += counted.count;
  const IterationSum measured = without(counted, ended.probes);
  view.counted_time.add(measured.count, measured.busy);
  view.update_remaining();
  return measured;
}

}  // namespace laneway::lanes
