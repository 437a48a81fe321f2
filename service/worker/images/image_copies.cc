#include "service/worker/images/image_copies.h"

#include <utility>

#include "base/fault_point.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "service/worker/images/image_use.h"
#include "service/worker/jobs/job_lane.h"
#include "service/worker/state/job_snapshot.h"

namespace laneway::service {
namespace {

using lanes::ImageLife;
using lanes::ImageState;

// A copy ahead of need is no more made; one that is whole was said to be so before.
void end_saving(WorkerJob& job) LW_REQUIRES(kBookkeeping) {
  if (!job.life.is_saved()) return;
  job.change_image([](ImageLife& image) { image.saved(false); });
}

}  // namespace

void ImageCopies::forget_prefix(WorkerJob& job) {
  // What will stay of one that leaves was decided since.
  if (job.life.state == ImageState::leaving) return;
  job.change_image([](ImageLife& image) { image.prefix = {}; });
}

void ImageCopies::write_placed(WorkerJob& job) {
  const BookkeepingLock lock(context_.mutex);
  job.write_ahead([](ImageLife& image) { image.placed(); });
}

void ImageCopies::place(const lanes::PlaceImage& action) {
  std::vector<std::unique_ptr<Way>> idle;  // joined without the mutex
  const BookkeepingLock lock(context_.mutex);
  idle = take_idle_readers();
  const JobHandle job = jobs_.get(action.job);
  // Closed meanwhile: the core hears of it next. Or a new core asks again.
  if (job == nullptr || job->phase != WorkerJob::Phase::waiting || job->placing) return;
  job->placing = true;
  job->image_offset = action.offset;
  job->image_size = action.size;
  job->change_image([&action](ImageLife& image) {
    if (image.state != ImageState::coming) image.come({});
    image.prefix = action.prefix;
  });
  if (job->journal) job->journal->placing(job->admitted, action.offset, action.size);
  Way& way = way_in(*job);
  way.thread.post([this, job, &noting = *way.noting] { copy(job, noting); });
}

ImageCopies::Way& ImageCopies::way_in(const WorkerJob& job) {
  if (job.clean) return way_of(job.life.copy.tier);
  if (!job.initial.lies_in_files()) return way_of(lanes::Tier::none);
  std::unique_ptr<Way>& way = readers_[job.id];
  if (way == nullptr) {
    way = std::make_unique<Way>();
    way->noting.emplace(nullptr);
  }
  return *way;
}

std::vector<std::unique_ptr<ImageCopies::Way>> ImageCopies::take_idle_readers() {
  std::vector<std::unique_ptr<Way>> idle;
  for (auto at = readers_.begin(); at != readers_.end();) {
    const JobHandle job = jobs_.get(at->first);
    if ((job != nullptr && job->placing) || at->second->thread.is_current()) {
      ++at;
      continue;
    }
    idle.push_back(std::move(at->second));
    at = readers_.erase(at);
  }
  return idle;
}

void ImageCopies::stop() {
  std::vector<std::unique_ptr<Way>> all;  // joined without the mutex
  const BookkeepingLock lock(context_.mutex);
  for (auto& [job, way] : readers_) all.push_back(std::move(way));
  readers_.clear();
  for (auto& way : ways_) all.push_back(std::move(way));
}

ImageCopies::Way& ImageCopies::way_of(lanes::Tier tier) {
  const bool stalls = context_.outside.may_stall(tier);
  std::unique_ptr<Way>& way = ways_.at(stalls ? static_cast<size_t>(tier) : 0);
  if (way != nullptr) return *way;
  Journal* const journal = stalls ? nullptr : context_.journal;
  way = std::make_unique<Way>();
  way->noting.emplace(journal != nullptr ? &journal->notes(limits::kMaxLanes) : nullptr);
  return *way;
}

void ImageCopies::copy(const JobHandle& job, LaneNoting& noting) {
  Bytes offset;
  Bytes size;
  bool arrives = false;
  {
    const BookkeepingLock lock(context_.mutex);
    while (job->running) context_.mutex.wait(job->changed);
    if (job->phase != WorkerJob::Phase::waiting || job->closing) return;
    job->running = true;
    offset = job->image_offset;
    size = job->image_size;
    arrives = may_arrive(*job);
  }
  noting.begin(LaneDoing::copying, job->id);
  if (arrives) arrive_noted(job, offset, size, noting);
  if (!arrives) place_noted(job, offset, size, noting);
  noting.end();
}

void ImageCopies::place_noted(const JobHandle& job, Bytes offset, Bytes size, LaneNoting& noting) {
  std::byte* const image = context_.pool + offset.count();
  if (const Status written = write_image(*job, image, size, noting); !written) {
    return drop_unplaced(job, written.error());
  }
  fault_point("worker.image_written");
  {
    const BookkeepingLock lock(context_.mutex);
    job->image = image;
  }
  keep_placed_image(context_, *job);
  write_placed(*job);
  fault_point("worker.image_placed");
  job->torch->bind_image(image);
  {
    const BookkeepingLock lock(context_.mutex);
    job->initial = pipeline::InitialImage();
    job->change_image([](ImageLife& life) { life.placed(); });
    job->placing = false;
    job->running = false;
    job->changed.notify_all();
  }
  context_.events.post(lanes::ImagePlaced{.job = job->id});
  wish_for_share(context_, *job);
}

// A device copies by itself from memory alone; and what it keeps on the CPU of the job's state is
// taken from there.
bool ImageCopies::may_arrive(const WorkerJob& job) const {
  const bool copies_by_itself = context_.outside.in_memory(job.life.copy) != nullptr;
  // What dies with the worker must be kept before it is used.
  return job.clean && !job.guard.restore_pending && !job.quarantined &&
         !context_.images_die_with_worker &&
         (copies_by_itself || context_.backend.device().capabilities().pool_is_addressable);
}

void ImageCopies::arrive_noted(const JobHandle& job, Bytes offset, Bytes size, LaneNoting& noting) {
  std::byte* const image = context_.pool + offset.count();
  job->arrival.begin();
  const bool reached = context_.backend.device().capabilities().pool_is_addressable;
  std::byte* const copy = [&] {
    const BookkeepingLock lock(context_.mutex);
    return context_.outside.in_memory(job->life.copy);
  }();
  job->torch->bind_arriving_image(image, reached ? nullptr : copy);
  {
    const BookkeepingLock lock(context_.mutex);
    job->image = image;
    job->change_image([](ImageLife& life) { life.arrive(); });
    job->running = false;
    job->changed.notify_all();
  }
  context_.events.leave(lanes::ImagePlaced{.job = job->id, .whole = false});
  const Status loaded = load(*job, image, size, while_wanted(*job, noting),
                             [&job](Bytes bytes, std::shared_ptr<memory::Event> there) {
                               job->arrival.advance(bytes, std::move(there));
                             });
  if (!loaded) return drop_unplaced(job, loaded.error());
  fault_point("worker.image_written");
  write_placed(*job);
  fault_point("worker.image_placed");
  {
    const BookkeepingLock lock(context_.mutex);
    job->placing = false;
    job->change_image([](ImageLife& life) { life.placed(); });
    job->changed.notify_all();
  }
  // Before anybody writes the image: that it is dirty must not be heard of before that it is whole.
  context_.events.post(lanes::ImagePlaced{.job = job->id});
  job->arrival.finish(true);
}

pipeline::GoesOn ImageCopies::while_wanted(WorkerJob& job, LaneNoting& noting) {
  return [this, &job, &noting](Bytes moved) {
    noting.progress();
    job.shown().moved_bytes.store(moved.count(), std::memory_order_relaxed);
    fault_point("worker.image_part");
    const BookkeepingLock lock(context_.mutex);
    return !job.closing;
  };
}

Status ImageCopies::write_image(WorkerJob& job, std::byte* image, Bytes size, LaneNoting& noting) {
  memory::PoolAccess& pool = context_.backend.pool_access();
  const pipeline::GoesOn goes_on = while_wanted(job, noting);
  if (job.clean) return load(job, image, size, goes_on, {});
  return job.initial.write_to(pool, image, size, job.torch->layout(), goes_on);
}

Status ImageCopies::load(WorkerJob& job, std::byte* image, Bytes size,
                         const pipeline::GoesOn& goes_on, const pipeline::Started& started) {
  pipeline::OutsideImages::Prefix prefix;
  lanes::OutsidePlace from;
  {
    const BookkeepingLock lock(context_.mutex);
    from = job.life.copy;
    // Its checksum is the whole image's: the CPU must see what stayed.
    const bool usable = context_.outside.in_memory(from) != nullptr ||
                        context_.backend.device().capabilities().pool_is_addressable;
    if (!usable) forget_prefix(job);
    prefix = {context_.pool + job.life.prefix.offset.count(), job.life.prefix.size};
  }
  const TimePoint begun = context_.clock.now();
  memory::PoolAccess& pool = context_.backend.pool_access();
  Status loaded =
      context_.outside.load(pool, image, size, from, job.copy_checksum, goes_on, prefix, started);
  if (loaded) note_link_rate(job, size - prefix.size, context_.clock.now() - begun);
  return loaded;
}

void ImageCopies::evict(const lanes::EvictImage& action) {
  const BookkeepingLock lock(context_.mutex);
  const JobHandle job = jobs_.get(action.job);
  // Closed meanwhile: the core hears of it next.
  if (job == nullptr || !job->may_become(ImageState::leaving)) return;
  // What lies elsewhere is of no use for that.
  if (job->life.copy != action.to) (void)job->outdate_copy();
  lanes::ImagePrefix stays;
  if (action.keep > Bytes()) stays = {job->image_offset, action.keep};
  job->change_image([&](ImageLife& image) { image.leave_to(action.to, stays); });
  Way& way = way_of(action.to.tier);
  way.thread.post(
      [this, job, size = action.size, &noting = *way.noting] { leave(job, size, noting); });
}

void ImageCopies::move(const lanes::MoveImage& action) {
  const BookkeepingLock lock(context_.mutex);
  const JobHandle job = jobs_.get(action.job);
  if (job == nullptr || !job->may_become(ImageState::moving)) return;
  job->change_image([&action](ImageLife& image) { image.move_to(action.offset); });
  Way& way = way_of(lanes::Tier::none);
  way.thread.post(
      [this, job, size = action.size, &noting = *way.noting] { mover_.move(job, size, noting); });
}

void ImageCopies::save(const lanes::SaveImage& action) {
  const BookkeepingLock lock(context_.mutex);
  const JobHandle job = jobs_.get(action.job);
  if (job == nullptr || !job->may_become(ImageState::saving)) return;
  (void)job->outdate_copy();
  job->change_image([&action](ImageLife& image) { image.save_to(action.to); });
  Way& way = way_of(action.to.tier);
  way.thread.post(
      [this, job, size = action.size, &noting = *way.noting] { save_unused(job, size, noting); });
}

void ImageCopies::save_unused(const JobHandle& job, Bytes size, LaneNoting& noting) {
  const auto is_used = [&job]() LW_REQUIRES(kBookkeeping) {
    return job->closing || job->lane != nullptr || job->visitors > 0 || job->ready();
  };
  bool begun = false;
  {
    const BookkeepingLock lock(context_.mutex);
    begun = job->phase == WorkerJob::Phase::placed && !job->running && !is_used();
    if (begun) job->running = true;
    if (!begun) end_saving(*job);
  }
  bool whole = false;
  if (begun) {
    noting.begin(LaneDoing::copying, job->id);
    const pipeline::GoesOn wanted = while_wanted(*job, noting);
    const Status saved = save_image(*job, size, [&](Bytes moved) {
      if (!wanted(moved)) return false;
      const BookkeepingLock lock(context_.mutex);
      return !is_used();
    });
    noting.end();
    whole = saved.ok();
    if (!whole && saved.error().code != ErrorCode::cancelled) {
      log_warning("the image of job '" + printable(job->name) +
                  "' has no copy: " + saved.error().message);
    }
    const BookkeepingLock lock(context_.mutex);
    end_saving(*job);
  }
  // Before anybody writes the image: its copy's end must not be heard of before its beginning.
  context_.events.leave(lanes::ImageSaved{.job = job->id, .whole = whole});
  if (!begun) return;
  {
    const BookkeepingLock lock(context_.mutex);
    job->running = false;
    if (job->closing) job->close_links();
    job->changed.notify_all();
    if (job->lane != nullptr) job->lane->work_arrived();
  }
  attend_(job);
}

void ImageCopies::leave(const JobHandle& job, Bytes size, LaneNoting& noting) {
  {
    const BookkeepingLock lock(context_.mutex);
    while (job->running) context_.mutex.wait(job->changed);
    if (job->life.state != ImageState::leaving || job->closing) return;
    job->running = true;
  }
  noting.begin(LaneDoing::copying, job->id);
  const Status saved = save_image(*job, size, while_wanted(*job, noting));
  noting.end();
  if (!saved) return stay(job, saved.error());
  fault_point("worker.image_saved");
  {
    const BookkeepingLock lock(context_.mutex);
    job->write_ahead([](ImageLife& image) { image.left(); });
  }
  fault_point("worker.image_left");
  // The copy is the state, and is all that a successor needs.
  if (!job->guard.restore_pending) drop_snapshot(*job);
  {
    const BookkeepingLock lock(context_.mutex);
    job->image = nullptr;
    job->change_image([](ImageLife& image) { image.left(); });
    job->admitted = {};
    job->running = false;
    job->changed.notify_all();
  }
  context_.events.post(lanes::ImageLeft{.job = job->id});
  attend_(job);
}

Status ImageCopies::save_image(WorkerJob& job, Bytes size, const pipeline::GoesOn& goes_on) {
  if (job.clean) return {};
  lanes::OutsidePlace to;
  {
    const BookkeepingLock lock(context_.mutex);
    to = job.life.copy;
  }
  const auto sum =
      context_.outside.save(context_.backend.pool_access(), job.image, size, to, goes_on);
  if (!sum) return sum.error();
  fault_point("worker.image_copied");
  const BookkeepingLock lock(context_.mutex);
  job.copy_checksum = sum.value();
  job.change_image([](ImageLife& image) {
    if (image.is_saved()) image.saved(true);
    image.clean = true;  // also of one that leaves meanwhile
  });
  job.write_ahead([](ImageLife&) {});  // as it is
  return {};
}

void ImageCopies::stay(const JobHandle& job, const Error& why) {
  const bool ended = why.code == ErrorCode::cancelled;
  const Error reason = why.code == ErrorCode::device_lost ? device_.failed(why, *job, "") : why;
  if (!ended) {
    log_warning("the image of job '" + printable(job->name) +
                "' stays in the pool: " + reason.message);
  }
  {
    const BookkeepingLock lock(context_.mutex);
    job->change_image([](ImageLife& image) { image.stay(); });
    job->running = false;
    if (job->closing) job->close_links();
    job->changed.notify_all();
  }
  if (!ended) context_.events.post(lanes::CopyFailed{.job = job->id});
  device_.tell_of_lost_jobs();
}

void ImageCopies::drop_unplaced(const JobHandle& job, const Error& why) {
  const Error reason = why.code == ErrorCode::device_lost ? device_.failed(why, *job, "") : why;
  const bool ended = why.code == ErrorCode::cancelled;
  {
    const BookkeepingLock lock(context_.mutex);
    if (!ended && !job->end_reason) job->end_reason = reason;
    job->placing = false;
    if (job->is_arriving()) {  // `running` is a lane's
      job->change_image([](ImageLife& image) { image.placed(); });
    } else {
      job->running = false;
    }
    job->changed.notify_all();
  }
  job->arrival.finish(false);
  if (ended) return;  // whoever ended it waits
  jobs_.begin_close(job, reason);
  device_.tell_of_lost_jobs();
}

}  // namespace laneway::service
