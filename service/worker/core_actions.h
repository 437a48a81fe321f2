// CoreActions: carries out the actions of the core, in their order, on the thread that drains the
// core's loop: images are placed and dropped, lanes opened and closed, turns granted and recalled.
// Jobs, lanes and the device keep their own state; this class has none.
#pragma once

#include <vector>

#include "base/result.h"
#include "lanes/action.h"
#include "service/worker/device_health.h"
#include "service/worker/link_watcher.h"
#include "service/worker/worker_context.h"
#include "service/worker/worker_job.h"
#include "service/worker/worker_jobs.h"
#include "service/worker/worker_lanes.h"

namespace laneway::service {

class CoreActions {
 public:
  // All of them must outlive it.
  CoreActions(WorkerContext& context, WorkerJobs& jobs, WorkerLanes& lanes, LinkWatcher& watcher,
              DeviceHealth& device)
      : context_(context), jobs_(jobs), lanes_(lanes), watcher_(watcher), device_(device) {}

  void carry_out(const std::vector<lanes::Action>& actions);

 private:
  void perform(const lanes::AdmitJob& action);
  void perform(const lanes::QueueJob& action);
  void perform(const lanes::RefuseJob& action);
  void perform(const lanes::PlaceImage& action);
  void perform(const lanes::DropImage& action);
  void perform(const lanes::OpenRegion& action);
  void perform(const lanes::ResizeRegion& action);
  void perform(const lanes::CloseRegion& action);
  void perform(const lanes::GrantTurn& action);
  void perform(const lanes::RecallTurn& action);

  // Its image could not be written.
  void drop_unplaced(const JobHandle& job, const Error& why);

  WorkerContext& context_;
  WorkerJobs& jobs_;
  WorkerLanes& lanes_;
  LinkWatcher& watcher_;
  DeviceHealth& device_;
};

}  // namespace laneway::service
