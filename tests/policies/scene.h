// Scene: a view put together by hand, for tests of policies: waiting jobs, lanes, ready jobs.
#pragma once

#include <deque>
#include <vector>

#include "policies/decision.h"
#include "policies/policy.h"
#include "policies/view.h"

namespace laneway::policies {

class Scene {
 public:
  explicit Scene(uint32_t max_lanes = 4) : view(max_lanes) {}

  JobView& waiting(uint64_t id) {
    JobView& job = add(id);
    view.add_waiting(job);
    return job;
  }
  JobView& in_lane(uint64_t id, uint64_t lane, bool ready) {
    if (view.lane(LaneId(lane)) == nullptr) view.open_lane(LaneId(lane), Bytes(64));
    JobView& job = add(id);
    job.lane = LaneId(lane);
    view.add_to_lane(job);
    job.ready = ready;
    if (ready) view.add_ready(job);
    return job;
  }
  // `left` iterations of `mean` each.
  static void set_remaining(JobView& job, uint64_t left, Duration mean) {
    job.options.total_iterations = job.counted + left;
    job.iteration_estimate = mean;
    job.update_remaining();
  }
  // It has done `many` iterations of `mean` each, which all count.
  static void set_done(JobView& job, uint64_t many, Duration mean) {
    job.iterations = job.counted = many;
    job.busy = mean * static_cast<int64_t>(many);
    job.counted_time.add(many, job.busy);
    job.update_remaining();
  }
  // All jobs in lanes, by lane.
  std::vector<EvictCandidate> may_leave(bool clean) const {
    std::vector<EvictCandidate> all;
    for (const LaneView& lane : view.lane_slots()) {
      for (const JobView* job : lane.jobs) all.push_back({job, !job->ready, clean});
    }
    return all;
  }
  PickQuestion question(uint64_t lane) const {
    const LaneView& it = *view.lane(LaneId(lane));
    return {.lane = it, .candidates = it.ready};
  }
  // Of a lane in which `running`, one of the ready ones, has had its turn for so long.
  PickQuestion question(uint64_t lane, const JobView& running, Duration running_for) const {
    PickQuestion asked = question(lane);
    asked.running = &running;
    asked.running_for = running_for;
    return asked;
  }
  // Whom the policy picks in lane 1, at time zero.
  JobId picked(Policy& policy) const { return policy.pick(TimePoint(), view, question(1)).job; }

  View view;

 private:
  JobView& add(uint64_t id) {
    JobView& job = jobs_.emplace_back();
    job.id = JobId(id);
    job.arrival = job.queue = jobs_.size();
    return job;
  }
  std::deque<JobView> jobs_;
};

}  // namespace laneway::policies
