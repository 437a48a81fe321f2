#include "service/worker/images/image_mover.h"

#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/printable.h"
#include "lanes/state/event.h"

namespace laneway::service {
namespace {

// Between two looks at whether somebody still wants the move.
constexpr Bytes kAtOnce = mib(4);

using lanes::ImageState;

// Where it is now; unless it was given up before.
void end_move(WorkerJob& job) LW_REQUIRES(kBookkeeping) {
  if (job.life.state != ImageState::moving) return;
  job.change_image([](lanes::ImageLife& image) { image.moved(); });
}

}  // namespace

void ImageMover::move(const JobHandle& job, Bytes size, LaneNoting& noting) {
  Bytes from;
  Bytes to;
  {
    const BookkeepingLock lock(context_.mutex);
    while (job->running || job->is_arriving()) context_.mutex.wait(job->changed);
    if (job->life.state != ImageState::moving || job->closing) return;
    job->running = true;
    ++under_way_;
    from = job->image_offset;
    to = job->life.moves_to;
  }
  noting.begin(LaneDoing::copying, job->id);
  const Status moved = copy(*job, from, to, size, noting);
  noting.end();
  if (moved) {
    fault_point("worker.image_copied");
    if (job->journal) job->journal->moved(to);
    fault_point("worker.image_moved");
    job->torch->bind_image(context_.pool + to.count());
    const BookkeepingLock lock(context_.mutex);
    job->image_offset = to;
    job->image = context_.pool + to.count();
  }
  settle(job, moved);
  const BookkeepingLock lock(context_.mutex);
  --under_way_;
  ended_.notify_all();
}

Status ImageMover::copy(WorkerJob& job, Bytes from, Bytes to, Bytes size, LaneNoting& noting) {
  memory::PoolAccess& pool = context_.backend.pool_access();
  for (Bytes at; at < size; at += kAtOnce) {
    std::byte* const base = context_.pool + at.count();
    Status copied =
        pool.copy_within(base + to.count(), base + from.count(), std::min(kAtOnce, size - at));
    if (!copied) return copied;
    noting.progress();
    fault_point("worker.image_moving");
    const BookkeepingLock lock(context_.mutex);
    if (job.closing || job.life.state != ImageState::moving) {
      return Error{ErrorCode::cancelled, "nobody wants the move any more"};
    }
  }
  return {};
}

void ImageMover::settle(const JobHandle& job, const Status& moved) {
  const bool failed = !moved && moved.error().code != ErrorCode::cancelled;
  if (failed) {
    const bool lost = moved.error().code == ErrorCode::device_lost;
    const Error reason = lost ? device_.failed(moved.error(), *job, "") : moved.error();
    log_warning("the image of job '" + printable(job->name) + "' does not move: " + reason.message);
  }
  {
    const BookkeepingLock lock(context_.mutex);
    end_move(*job);
    job->running = false;
    if (job->closing) job->close_links();
    job->changed.notify_all();
  }
  if (moved) context_.events.post(lanes::ImagePlaced{.job = job->id});
  if (failed) context_.events.post(lanes::CopyFailed{.job = job->id});
  if (failed) device_.tell_of_lost_jobs();
  attend_(job);
}

void ImageMover::stop() {
  const BookkeepingLock lock(context_.mutex);
  for (const auto& [id, job] : jobs_.all()) end_move(*job);
  while (under_way_ > 0) context_.mutex.wait(ended_);
}

}  // namespace laneway::service
