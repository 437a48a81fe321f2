#include "lanes/core/job_exit.h"

#include "lanes/state/counted.h"

namespace laneway::lanes {
namespace {

constexpr size_t kEndedRemembered = 32;  // enough for a status page

}  // namespace

void JobExit::end_job(Job& job, JobState end_state) {
  if (job.ending) return;
  if (!job.view.running) {
    forget_job(job, end_state);
    return;
  }
  job.end_later(end_state);
  turns_.recall(core_.lane_of(job.view.lane));
}

void JobExit::forget_job(Job& job, JobState end_state) {
  const JobId id = job.view.id;
  if (is_counted(job.view)) core_.lane_limit.jobs_changed(core_.now);
  if (job.queued()) core_.quit_queue(job);
  if (job.aside) --core_.jobs_aside;
  if (core_.is_homeless(job)) --core_.homeless_jobs;
  std::erase(core_.leaving, id);
  std::erase(core_.coming, id);
  if (job.image.is_saved()) --core_.saving_jobs;
  if (job.state() == JobState::away) core_.actions.push_back(DropImage{id});
  if (job.view.lane.valid()) {
    const uint32_t held = core_.held_jobs() - (job.state() == JobState::held ? 1 : 0);
    Lane& lane = core_.lane_of(job.view.lane);
    core_.quit_lane(job);
    core_.actions.push_back(DropImage{id});
    core_.pool.drop_image(id);
    // The lane's region may shrink: between two turns, and soon if others wait for memory.
    if (lane.open() && (!core_.view.waiting().empty() || held > 0)) turns_.recall(lane);
  }
  core_.pool.drop_prefix(id);
  const bool had_copy = core_.outside.drop(id).tier != Tier::none;
  // OutsideMap can't note it: homes are given and taken back in each try to admit a job.
  if (core_.outside.drop_home(id) || had_copy) core_.changes.note(Changed::jobs);
  job.image = {};
  job.move_to(end_state);
  core_.ended.push_back(core_.status_of(job));
  if (core_.ended.size() > kEndedRemembered) core_.ended.pop_front();
  core_.jobs.remove(id);
  policy_.gone(id);
}

void JobExit::refuse_for_good(Job& job) {
  refuse(job, core_.make_reason(ReasonCode::larger_than_pool, job));
}

void JobExit::refuse(Job& job, const Reason& reason) {
  core_.counters.refused(reason.code);
  core_.actions.push_back(RefuseJob{job.view.id, reason});
  job.reason = reason;
  end_job(job, JobState::failed);
}

}  // namespace laneway::lanes
