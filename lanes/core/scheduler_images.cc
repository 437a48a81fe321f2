// Scheduler: what it is told of images, and what clients want of them.
#include <utility>

#include "lanes/core/scheduler.h"
#include "lanes/state/stay_rule.h"

namespace laneway::lanes {

void Scheduler::on(const ImagePlaced& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  if (job->state() == JobState::moving) return move_ended(*job, /*moved=*/true);
  const bool comes = job->image.state == ImageState::coming;
  const bool arrives = job->image.state == ImageState::arriving;
  // Only what has a copy outside can arrive while it is used.
  if (event.whole ? !comes && !arrives : !comes || !job->image.clean) {
    ++core_.ignored_events;
    return;
  }
  job->view.placed_at = core_.now;
  if (event.whole) {
    learn_way_in(core_, *job);
    if (job->image.comes_back()) core_.counters.returns.add(job->image.copy.tier);
    core_.counters.moved_in += job->view.persistent - job->image.prefix.size;
  }
  event.whole ? job->image.placed() : job->image.arrive();
  if (comes) {
    job->view.used_at = core_.now;
    rest(*job);
  }
  if (!event.whole) return;
  std::erase(core_.coming, event.job);
  core_.pool.drop_prefix(event.job);  // what stayed was copied
  retry_those_who_wait();
  if (job->wanted_out) eviction_.unload(*job);
}

void Scheduler::move_ended(Job& job, bool moved) {
  moves_.ended(job, moved);
  if (moved) core_.counters.moved_inside += job.view.persistent;
  rest(job);
  if (job.wanted_out) eviction_.unload(job);
}

void Scheduler::rest(Job& job) {
  job.move_to(job.at_rest());
  Lane& lane = core_.lane_of(job.view.lane);
  if (core_.pool.rounded(job.view.ephemeral) > lane.region.size) {
    // Its need grew while its image was on the way.
    core_.want_fit(lane);
    if (!lane.open()) {
      regions_.fit_region(lane);
    } else {
      regions_.mark_held(lane);
      turns_.recall(lane);
    }
  }
  if (job.work_announced) turns_.announce_work(job);
}

void Scheduler::on(const ImageLeft& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  if (job->state() == JobState::evicting) {
    core_.counters.evictions.add(job->image.copy.tier);
    if (!job->image.clean) core_.counters.moved_out += job->view.persistent;
    eviction_.left(*job);
    save_ahead_.look_soon();
  } else {
    ++core_.ignored_events;
  }
}

void Scheduler::on(const CopyFailed& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  if (job->state() == JobState::moving) return move_ended(*job, /*moved=*/false);
  if (job->state() != JobState::evicting) return static_cast<void>(++core_.ignored_events);
  eviction_.failed(*job);
  save_ahead_.look_soon();
  rest(*job);
}

void Scheduler::on(const ImageSaved& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  if (!job->image.is_saved()) return static_cast<void>(++core_.ignored_events);
  if (event.whole) core_.counters.moved_out += job->view.persistent;
  save_ahead_.saved(*job, event.whole);
}

void Scheduler::on(const ImageDirty& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  // Only a placed image can differ from its copy; otherwise the copy is the image.
  const ImageState state = job->image.state;
  if (!job->image.is_usable() || state == ImageState::arriving || !job->image.clean) {
    ++core_.ignored_events;
    return;
  }
  eviction_.dirty(*job);
  save_ahead_.outdated(*job);
}

void Scheduler::on(const ResidencyWanted& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  const auto load = [&] {
    job->wanted_out = job->unloaded = false;
    if (job->state() != JobState::away) return;
    if (!job->queued()) core_.enqueue(*job);
    job->wanted_in = true;
  };
  switch (event.wanted) {
    case Residency::pin:
      job->pinned = true;
      load();
      break;
    case Residency::unpin: job->pinned = false; break;
    case Residency::load: load(); break;
    case Residency::unload:
      if (std::exchange(job->wanted_in, false) && !job->queued()) {
        core_.quit_queue(*job);
      }
      eviction_.unload(*job);
      break;
  }
  // A pin that is gone may let somebody leave.
  core_.changes.note(Changed::jobs);
}

}  // namespace laneway::lanes
