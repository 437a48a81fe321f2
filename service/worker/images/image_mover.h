// ImageMover: moves an image to another range of the pool. Nothing of its job runs meanwhile. The
// journal has one store for it, behind the last byte, so the state is whole in one of the two
// ranges at any moment. Thread-safe: jobs are guarded by the worker's mutex.
#pragma once

#include "base/bytes.h"
#include "base/mutex.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/common/lane_noting.h"
#include "service/worker/jobs/device_health.h"
#include "service/worker/jobs/link_watcher.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/jobs/worker_jobs.h"

namespace laneway::service {

class ImageMover {
 public:
  // All of them must outlive it. `attend`: as of ImageCopies.
  ImageMover(WorkerContext& context, WorkerJobs& jobs, DeviceHealth& device,
             const LinkWatcher::Attend& attend)
      : context_(context), jobs_(jobs), device_(device), attend_(attend) {}

  // To where the job's image moves, unless that was withdrawn; posts ImagePlaced, or CopyFailed
  // when a copy did not succeed. For the thread that copies.
  void move(const JobHandle& job, Bytes size, LaneNoting& noting);
  // Gives up all moves, also those that were not begun: their images stay where they are, and
  // nothing is posted. Returns when none is under way.
  void stop();

 private:
  // Every byte, so nothing of the range's former owner is left. Cancelled when nobody wants it.
  Status copy(WorkerJob& job, Bytes from, Bytes to, Bytes size, LaneNoting& noting);
  void settle(const JobHandle& job, const Status& moved);

  WorkerContext& context_;
  WorkerJobs& jobs_;
  DeviceHealth& device_;
  const LinkWatcher::Attend& attend_;
  uint32_t under_way_ LW_GUARDED_BY(kBookkeeping) = 0;
  CondVar ended_;
};

}  // namespace laneway::service
