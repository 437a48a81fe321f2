// ImageCopies: moves images into the pool and out of it on threads of its own, so that no turn
// waits while gigabytes are copied: one after the other, and those from and to a store that may
// stall (a disk) beside the others; so may files of clients, which are read by a thread for each
// job. A copy goes in slices: a job that ends meanwhile is left after one of them.
//
// The journal says at any moment where a job's state is: in the pool until the copy outside is
// whole, then there, until the image is whole in the pool again.
//
// Thread-safe: jobs are guarded by the worker's mutex.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "lanes/state/action.h"
#include "pipeline/image_arrival.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/common/lane_noting.h"
#include "service/worker/common/task_thread.h"
#include "service/worker/images/image_mover.h"
#include "service/worker/jobs/device_health.h"
#include "service/worker/jobs/link_watcher.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/jobs/worker_jobs.h"

namespace laneway::service {

class ImageCopies {
 public:
  // All of them must outlive it. `attend` is called for a job that a copy no longer holds up:
  // requests may have come meanwhile.
  ImageCopies(WorkerContext& context, WorkerJobs& jobs, DeviceHealth& device,
              LinkWatcher::Attend attend)
      : context_(context),
        jobs_(jobs),
        device_(device),
        attend_(std::move(attend)),
        mover_(context, jobs, device, attend_) {}

  // Writes the job's bytes to that place, after what was asked for before, and posts ImagePlaced; a
  // copy that fails ends the job. Asked for again meanwhile, it changes nothing. An image that
  // comes back may be used as soon as the first ImagePlaced is posted, by iterations that wait for
  // its bytes.
  void place(const lanes::PlaceImage& action);
  // Copies the image there, unless what lies there is its copy, and posts ImageLeft; or CopyFailed,
  // and the job goes on with its image where it was.
  void evict(const lanes::EvictImage& action);
  // Copies the image to its new place and posts ImagePlaced, or CopyFailed. Nothing of the job runs
  // meanwhile.
  void move(const lanes::MoveImage& action);
  // See ImageMover::stop.
  void stop_moves() { mover_.stop(); }
  // Copies the image there while the job has nothing to run, and posts ImageSaved.
  void save(const lanes::SaveImage& action);
  void drop_copy(const lanes::DropCopy& action) {
    const BookkeepingLock lock(context_.mutex);
    if (const JobHandle job = jobs_.get(action.job)) (void)job->outdate_copy();
  }
  void drop_prefix(const lanes::DropPrefix& action) {
    const BookkeepingLock lock(context_.mutex);
    if (const JobHandle job = jobs_.get(action.job)) forget_prefix(*job);
  }
  // Ends the threads: nothing of theirs is posted afterwards. Requires: no job is left.
  void stop();

 private:
  // A thread that copies, and where it notes what it does.
  struct Way {
    std::optional<LaneNoting> noting;
    TaskThread thread;
  };
  Way& way_of(lanes::Tier tier) LW_REQUIRES(kBookkeeping);
  Way& way_in(const WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // Of jobs whose images are in the pool, or are over; not the caller's own. Their threads end
  // with them.
  std::vector<std::unique_ptr<Way>> take_idle_readers() LW_REQUIRES(kBookkeeping);
  static void forget_prefix(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  void copy(const JobHandle& job, LaneNoting& noting);
  // That its bytes are there, before anybody is told.
  void write_placed(WorkerJob& job);
  void place_noted(const JobHandle& job, Bytes offset, Bytes size, LaneNoting& noting);
  // Whether its iterations may run while the image comes back.
  bool may_arrive(const WorkerJob& job) const LW_REQUIRES(kBookkeeping);
  void arrive_noted(const JobHandle& job, Bytes offset, Bytes size, LaneNoting& noting);
  // Its copy outside and what stayed of it come together at `image`.
  Status load(WorkerJob& job, std::byte* image, Bytes size, const pipeline::GoesOn& goes_on,
              const pipeline::Started& started);
  void leave(const JobHandle& job, Bytes size, LaneNoting& noting);
  void save_unused(const JobHandle& job, Bytes size, LaneNoting& noting);
  // To where it is saved or leaves to. Success: the copy is whole.
  Status save_image(WorkerJob& job, Bytes size, const pipeline::GoesOn& goes_on);
  void stay(const JobHandle& job, const Error& why);
  pipeline::GoesOn while_wanted(WorkerJob& job, LaneNoting& noting);
  // Every byte of the image, so nothing of its former owner is left. Cancelled when the job ends.
  Status write_image(WorkerJob& job, std::byte* image, Bytes size, LaneNoting& noting);
  void drop_unplaced(const JobHandle& job, const Error& why);

  WorkerContext& context_;
  WorkerJobs& jobs_;
  DeviceHealth& device_;
  const LinkWatcher::Attend attend_;
  ImageMover mover_;
  // By tier; the first is that of all whose copies don't stall. Each from its first image on: the
  // first one's notes are its thread's, and a predecessor's until then. Nobody watches the others:
  // a disk that does not answer is no fault of the job.
  std::array<std::unique_ptr<Way>, lanes::kTierCount> ways_ LW_GUARDED_BY(kBookkeeping);
  // Clients' files, each job's by a thread of its own: a client may give one that never answers,
  // and nobody else waits for it.
  std::map<JobId, std::unique_ptr<Way>> readers_ LW_GUARDED_BY(kBookkeeping);
};

}  // namespace laneway::service
