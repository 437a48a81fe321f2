// CoreActions: carries out the actions of the core, in their order, on the thread that drains the
// core's loop, which it does not hold up: images are placed (image_copies) and dropped, lanes
// opened and closed, turns granted and recalled. Jobs, lanes and the device keep their own state;
// this class knows the size of the pool alone.
#pragma once

#include <optional>
#include <vector>

#include "base/mutex.h"
#include "lanes/state/action.h"
#include "service/worker/images/image_copies.h"
#include "service/worker/images/pool_return.h"
#include "service/worker/jobs/link_watcher.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/jobs/worker_jobs.h"
#include "service/worker/lanes/worker_lanes.h"

namespace laneway::service {

class CoreActions {
 public:
  // All of them must outlive it.
  CoreActions(WorkerContext& context, WorkerJobs& jobs, WorkerLanes& lanes, LinkWatcher& watcher,
              ImageCopies& copies)
      : context_(context), jobs_(jobs), lanes_(lanes), watcher_(watcher), copies_(copies) {}

  void carry_out(const std::vector<lanes::Action>& actions);
  // Memory of the pool that is being given back is; none is given back from now on. From any
  // thread.
  void stop() LW_EXCLUDES(pool_mutex_);

 private:
  void perform(const lanes::AdmitJob& action);
  void perform(const lanes::ChangeLane& action);
  void perform(const lanes::QueueJob& action);
  void perform(const lanes::RefuseJob& action);
  void perform(const lanes::RefuseWork& action);
  void perform(const lanes::PlaceImage& action);
  void perform(const lanes::DropImage& action);
  void perform(const lanes::MoveImage& action) { copies_.move(action); }
  void perform(const lanes::EvictImage& action) { copies_.evict(action); }
  void perform(const lanes::SaveImage& action) { copies_.save(action); }
  void perform(const lanes::DropCopy& action) { copies_.drop_copy(action); }
  void perform(const lanes::DropPrefix& action) { copies_.drop_prefix(action); }
  void perform(const lanes::OpenRegion& action);
  void perform(const lanes::ResizeRegion& action);
  void perform(const lanes::CloseRegion& action);
  void perform(const lanes::GrantTurn& action);
  void perform(const lanes::RecallTurn& action);
  void perform(const lanes::KeepLearnt& action);
  void perform(const lanes::TellPolicy& /*action*/) {}  // that of the policy's own program
  void perform(const lanes::ResizePool& action) LW_EXCLUDES(pool_mutex_);

  WorkerContext& context_;
  WorkerJobs& jobs_;
  WorkerLanes& lanes_;
  LinkWatcher& watcher_;
  ImageCopies& copies_;
  Mutex pool_mutex_;
  bool stopped_ LW_GUARDED_BY(pool_mutex_) = false;
  Bytes pool_size_ LW_GUARDED_BY(pool_mutex_) = context_.capacity;
  std::optional<PoolReturn> pool_return_ LW_GUARDED_BY(pool_mutex_);  // made when there is some
};

}  // namespace laneway::service
