// Client: one job's client in virtual time: it submits iterations, waits for them, and ends the job
// after the last one. It keeps the job's result. Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/state/job_offered.h"
#include "simulator/sim_job.h"

namespace laneway::simulator {

class Client {
 public:
  Client(JobId id, SimJob job) : id_(id), job_(std::move(job)) {}

  JobId id() const { return id_; }
  const SimJob& job() const { return job_; }
  lanes::JobOffered offer() const;

  // Its first submissions, at the offer; what it submits after `ended` iterations ended (0 or more
  // submissions, each `job().gap` later); and when one of those is made.
  void begin() { submit(job_.gap == Duration() ? job_.iterations : job_.in_flight); }
  uint64_t submissions_after(uint64_t ended) const;
  void submit(uint64_t iterations);
  void complete(uint64_t iterations);

  uint64_t queued() const { return queued_; }
  bool is_done() const { return result.iterations == job_.iterations; }
  bool is_over() const { return result.ended != TimePoint::never(); }

  // It has work, none of which runs, from now on; and one of its iterations begins.
  void wait(TimePoint now);
  void end_wait(TimePoint now);
  // … so far, if it still waits.
  Duration longest_wait(TimePoint now) const;

  JobResult result;
  TurnId turn;  // the open one
  LaneId lane;  // … and its lane
  uint64_t turns = 0;

 private:
  JobId id_;
  SimJob job_;
  uint64_t submitted_ = 0;
  uint64_t queued_ = 0;  // submitted and not done
  bool waits_ = false;
  TimePoint waits_since_;
};

}  // namespace laneway::simulator
