// CoRunLoad: the real scheduler with several lanes, and an exact worker in virtual time whose jobs
// slow each other down: a job demands a part of the device; while the demands of those that compute
// exceed it each gets its share, and each neighbour costs a fixed part more (caches, bandwidth).
// Every job always has work. What it counts is work in time alone, by its own arithmetic, so that
// decisions on what runs beside what can be held against it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "lanes/scheduler.h"

namespace laneway::simulation {

struct CoRunJob {
  Duration iteration = milliseconds(5);  // alone
  double demand = 1;                     // of the device
  JobClass job_class = JobClass::training;
};

class CoRunLoad {
 public:
  static constexpr Duration kTurnGap = microseconds(80);

  // `policy` is as the registry reads it; each neighbour costs `interference` of a job's own time.
  CoRunLoad(const std::string& policy, uint32_t lanes, double interference);
  // As many lanes as pay by measure, from `first` on.
  static CoRunLoad measured(const std::string& policy, uint32_t first, double interference);
  // Numbered from 1, offered when run() begins. Requires: run() was not called.
  void add(const CoRunJob& job) { jobs_.push_back(job); }
  // Goes on from where it was.
  void run(Duration time);

  // Of one job, or of all, in seconds of time alone, up to now.
  double work(uint64_t job) const;
  double work() const;
  // From when it had no turn to when it began an iteration.
  Duration longest_wait(uint64_t job) const { return waits_.at(job - 1); }
  const lanes::Scheduler& scheduler() const { return *scheduler_; }
  size_t open_turns() const { return turns_.size(); }

 private:
  CoRunLoad(const std::string& policy, const lanes::SchedulerConfig& config, double interference);

  struct Open {
    lanes::Turn turn;
    TimePoint begins;  // its first iteration
    bool recalled = false;
    uint64_t done = 0;
    double left_ns = 0;  // of the iteration that runs, in time alone
    Duration busy;
  };

  void send(const lanes::Event& event);
  void offer_all();
  bool computes(const Open& turn) const { return turn.begins <= now_; }
  // Work that each of those that compute does in a unit of time.
  double rate() const;
  // When the first of them ends its iteration, or begins.
  TimePoint next_event() const;
  void pass_until(TimePoint time);
  void end_iterations();
  const CoRunJob& job_of(const Open& turn) const { return jobs_[turn.turn.job.value() - 1]; }

  double interference_;
  std::unique_ptr<lanes::Scheduler> scheduler_;
  TimePoint now_;
  std::vector<CoRunJob> jobs_;
  std::vector<double> work_ns_;
  std::vector<TimePoint> waits_since_;
  std::vector<Duration> waits_;
  std::map<LaneId, Open> turns_;
};

}  // namespace laneway::simulation
