// SchedulerTest: a scheduler in a small pool, spoken to event by event. Sizes are in units of the
// alignment (64 bytes), so that "40 units" in a pool of 100 is what it says.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lanes/core/scheduler.h"
#include "policies/fifo.h"

namespace laneway::lanes {

constexpr Bytes units(int64_t n) { return Bytes(n * 64); }

// The actions of one kind, in order.
template <class T>
std::vector<T> of(const std::vector<Action>& actions) {
  std::vector<T> some;
  for (const Action& action : actions) {
    if (const T* it = std::get_if<T>(&action)) some.push_back(*it);
  }
  return some;
}

class SchedulerTest : public testing::Test {
 protected:
  void make(int64_t pool_units, uint32_t max_lanes, int64_t reserve_units = 0,
            std::unique_ptr<policies::Policy> policy = std::make_unique<policies::Fifo>()) {
    SchedulerConfig config;
    config.capacity = units(pool_units);
    config.reserve = units(reserve_units);
    config.store = store_;
    config.spill = spill_;
    config.check_every = 1;
    config.max_lanes = max_lanes;
    config.keep_lanes = keep_lanes_;
    config.lane_limit = lane_limit_;
    scheduler_ = std::make_unique<Scheduler>(config, std::move(policy));
  }

  // Each a moment after the one before, in which an image of these sizes could leave and come.
  std::vector<Action> send(const Event& event) {
    now_ = now_ + microseconds(20);
    return scheduler_->handle(now_, event);
  }
  std::vector<Action> offer(uint64_t id, int64_t persistent, int64_t ephemeral,
                            uint64_t context_key = 0, uint64_t session = 1) {
    JobOffered job;
    job.job = JobId(id);
    job.session = SessionId(session);
    job.options.name = "job" + std::to_string(id);
    job.persistent = units(persistent);
    job.ephemeral = units(ephemeral);
    job.context_key = context_key;
    return send(job);
  }
  std::vector<Action> offer_urgent(uint64_t id, int64_t persistent, int64_t ephemeral,
                                   int32_t priority, uint64_t context_key = 0) {
    JobOffered job;
    job.job = JobId(id);
    job.session = SessionId(1);
    job.options.name = "job" + std::to_string(id);
    job.options.priority = priority;
    job.persistent = units(persistent);
    job.ephemeral = units(ephemeral);
    job.context_key = context_key;
    return send(job);
  }
  std::vector<Action> place(uint64_t id) { return send(ImagePlaced{JobId(id)}); }
  std::vector<Action> ready(uint64_t id) { return send(WorkReady{JobId(id)}); }
  // Admitted, placed, with work: its turn is open when its lane was idle.
  std::vector<Action> start(uint64_t id, int64_t persistent, int64_t ephemeral,
                            uint64_t context_key = 0) {
    offer(id, persistent, ephemeral, context_key);
    place(id);
    return ready(id);
  }
  std::vector<Action> end_turn(TurnId turn, TurnEnd end, bool more_ready,
                               Bytes ephemeral = Bytes(0), uint64_t iterations = 1) {
    return send(TurnEnded{.turn = turn,
                          .end = end,
                          .iterations = iterations,
                          .busy = microseconds(10),
                          .more_ready = more_ready,
                          .ephemeral = ephemeral});
  }
  JobStatus job(uint64_t id) const {
    for (const JobStatus& status : scheduler_->snapshot().jobs) {
      if (status.id == JobId(id)) return status;
    }
    ADD_FAILURE() << "no job " << id;
    return {};
  }

  // As a worker reports it: its image is there alone.
  static ReportedJob away_at(uint64_t id, int64_t persistent, OutsidePlace copy) {
    ReportedJob job;
    job.offer.job = JobId(id);
    job.offer.session = SessionId(1);
    job.offer.persistent = units(persistent);
    job.offer.ephemeral = units(10);
    job.image.copy = copy;
    job.image.clean = copy.tier != Tier::none;
    if (job.image.clean) job.image.state = ImageState::away;
    return job;
  }
  // In lane 1 too, at this offset of the pool.
  static ReportedJob in_pool(ReportedJob job, int64_t offset) {
    job.lane = LaneId(1);
    job.image_offset = units(offset);
    job.image_size = job.offer.persistent;
    job.image.state = ImageState::here;
    return job;
  }
  // What a core made anew is told. `with_lane`: lane 1 has a region, the last tenth of 100 units.
  std::vector<Action> restore(std::vector<ReportedJob> jobs, bool with_lane = false) {
    WorkerReport report;
    report.jobs = std::move(jobs);
    if (with_lane) report.regions.push_back({RegionId(1), LaneId(1), units(90), units(10)});
    return send(WorkerReported{report});
  }

  Bytes store_;  // for make()
  Bytes spill_;
  uint32_t keep_lanes_ = 1;
  LaneLimitRules lane_limit_;
  std::unique_ptr<Scheduler> scheduler_;
  TimePoint now_;
};

}  // namespace laneway::lanes
