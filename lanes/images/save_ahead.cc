#include "lanes/images/save_ahead.h"

#include <algorithm>
#include <utility>

namespace laneway::lanes {
namespace {

// Turns without a bound end for a look at whether their job has work; for one that has, so often
// that it costs nothing.
constexpr int64_t kAskFactor = 10;
// Of config.idle_before_saving, after a copy that did not become whole, or of which nobody had the
// use.
constexpr int64_t kRetryFactor = 10;

}  // namespace

void SaveAhead::look_soon() {
  if (core_.outside.copies() == 0) return;
  wakeup_ = std::min(wakeup_, core_.now + core_.config.idle_before_saving);
}

void SaveAhead::on_timer() {
  if (wakeup_ > core_.now) return;
  wakeup_ = TimePoint::never();
  // Whoever leaves or is saved ends with a look.
  if (!core_.worker_up || !core_.leaving.empty() || core_.saving_jobs > 0) return;
  const JobTable& jobs = core_.jobs;
  const bool needed = std::any_of(jobs.begin(), jobs.end(), [](const auto& one) {
    return one.second.state() == JobState::away;
  });
  Job* const job = needed ? next() : nullptr;
  if (job == nullptr) return;
  const Bytes size = job->view.persistent;
  const OutsidePlace place = core_.outside.place_for(job->view.id);
  if (place.tier != Tier::store || !core_.outside.claim(job->view.id, size, place)) return;
  job->image.save_to(place);
  ++core_.saving_jobs;
  core_.outside_taken();
  core_.actions.push_back(SaveImage{job->view.id, place, core_.pool.rounded(size)});
}

Job* SaveAhead::next() {
  const Job* found = nullptr;
  for (const auto& [id, job] : core_.jobs) {
    if (job.image.clean || job.ending || job.pinned) continue;
    if (job.state() == JobState::running) ask_for_work(job);
    if (!is_idle(job)) continue;
    if (found == nullptr || job.view.used_at < found->view.used_at) found = &job;
  }
  return found == nullptr ? nullptr : &core_.job_of(found->view.id);
}

void SaveAhead::ask_for_work(const Job& running) {
  Lane& lane = core_.lane_of(running.view.lane);
  const TimePoint due = lane.granted_at + core_.config.idle_before_saving * kAskFactor;
  if (!lane.bounded && !look_again(due)) turns_.recall(lane);
}

bool SaveAhead::is_idle(const Job& job) {
  const Duration least = core_.config.idle_before_saving;
  if (job.state() != job.at_rest() || job.work_announced) return false;
  return !look_again(std::max(job.view.used_at, job.view.placed_at) + least) &&
         !look_again(job.save_no_sooner);
}

bool SaveAhead::look_again(TimePoint when) {
  if (when <= core_.now) return false;
  wakeup_ = std::min(wakeup_, when);
  return true;
}

void SaveAhead::saved(Job& job, bool whole) {
  job.image.saved(whole);
  --core_.saving_jobs;
  look_soon();
  // A copy that nobody needs gives its place to who waits aside for one.
  if (core_.jobs_aside > 0) core_.changes.note(Changed::ended);
  // It may move again.
  if (core_.wanted_capacity != core_.pool.capacity()) core_.changes.note(Changed::jobs);
  if (whole || job.image.state == ImageState::leaving) return;
  core_.outside.drop(job.view.id);
  outdated(job);
  core_.changes.note(Changed::jobs);  // room outside is free
}

void SaveAhead::outdated(Job& job) {
  job.save_no_sooner = core_.now + core_.config.idle_before_saving * kRetryFactor;
}

}  // namespace laneway::lanes
