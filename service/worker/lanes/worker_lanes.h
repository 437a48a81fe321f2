// WorkerLanes: the lanes of a worker, by id: they are opened over regions of the pool, which the
// journal knows, and closed; at the end their threads are joined. A closed lane stays warm (thread,
// stream, what libraries keep for a thread), and is the one that is opened under its id again. The
// numbers of regions and turns that the
// core has used are kept for its successor.
//
// Thread-safe: guarded by the worker's mutex. open, resize, close, grant and recall are called by
// the thread that carries out the core's actions.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "lanes/state/report.h"
#include "lanes/state/turn.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/lanes/lane_host.h"
#include "service/worker/lanes/worker_lane.h"

namespace laneway::service {

class WorkerLanes {
 public:
  // Both must outlive the lanes.
  WorkerLanes(WorkerContext& context, LaneHost& host) : context_(context), host_(host) {}
  ~WorkerLanes();  // close_all was called
  WorkerLanes(const WorkerLanes&) = delete;
  WorkerLanes& operator=(const WorkerLanes&) = delete;

  // After close_all these do nothing.
  void open(const lanes::OpenRegion& action);
  void resize(const lanes::ResizeRegion& action);
  void close(const lanes::CloseRegion& action);
  // `job` is null when it is gone.
  void grant(const lanes::Turn& turn, JobHandle job) LW_REQUIRES(kBookkeeping);
  // True when the turn ended at once; then `ended` is the report to post.
  bool recall(const lanes::RecallTurn& action, lanes::TurnEnded& ended);
  // Opens the lanes whose regions a predecessor's journal has. False when there are none.
  bool recover() LW_REQUIRES(kBookkeeping);
  bool has(LaneId lane) const LW_REQUIRES(kBookkeeping) { return lanes_.count(lane) > 0; }
  // Regions, and the last numbers of regions and turns.
  void report(lanes::WorkerReport& report) const LW_REQUIRES(kBookkeeping);

  bool another_is_busy(const WorkerLane& lane) const LW_REQUIRES(kBookkeeping);
  // WorkerLane::retire_soon and work_arrived of all.
  void retire_soon() LW_REQUIRES(kBookkeeping);
  void wake_all() LW_REQUIRES(kBookkeeping);

  // Stops all lanes and joins their threads. Requires: all jobs have ended.
  void close_all();

 private:
  // The lane that was closed under that id; false when there is none.
  bool open_warm(const Journal::Region& region);
  void make(const Journal::Region& region, Result<std::unique_ptr<adaptor::DeviceLane>> device)
      LW_REQUIRES(kBookkeeping);
  void bind(WorkerLane& lane, const Journal::Region& region) LW_REQUIRES(kBookkeeping);
  WorkerLane* find(RegionId region) LW_REQUIRES(kBookkeeping);

  WorkerContext& context_;
  LaneHost& host_;
  std::map<LaneId, std::unique_ptr<WorkerLane>> lanes_ LW_GUARDED_BY(kBookkeeping);
  std::map<LaneId, std::unique_ptr<WorkerLane>> warm_ LW_GUARDED_BY(kBookkeeping);
  // Without a device, and closed: to be joined.
  std::vector<std::unique_ptr<WorkerLane>> retired_ LW_GUARDED_BY(kBookkeeping);
  bool closed_ LW_GUARDED_BY(kBookkeeping) = false;  // all jobs have ended: no new lanes
  TurnId last_turn_ LW_GUARDED_BY(kBookkeeping);
  RegionId last_region_ LW_GUARDED_BY(kBookkeeping);
};

}  // namespace laneway::service
