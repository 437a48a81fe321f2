// LaneLoad: the real scheduler with one lane, and an exact worker in virtual time: jobs whose
// iterations take a fixed time, whose clients keep a fixed number of submissions in flight. What it
// finds (device time, the longest wait for an iteration) is its own arithmetic, so that promises of
// policies can be held against it. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/job_options.h"
#include "base/time.h"
#include "lanes/scheduler.h"

namespace laneway::simulation {

struct LoadJob {
  JobOptions options = {};
  Duration iteration = milliseconds(1);
  uint64_t in_flight = 1;             // 1: its client is synchronous
  uint64_t total = UINT64_MAX;        // what it really wants; it ends then
  Duration think = microseconds(50);  // of the client, between a result and the next submission
  TimePoint begins = TimePoint();
};

struct LoadResult {
  Duration device_time;
  uint64_t iterations = 0;
  // From when it had work and none of it ran, to the begin of an iteration or the end of the run.
  Duration longest_wait;
  TimePoint done = TimePoint::never();  // when its last iteration of `total` ended
};

class LaneLoad {
 public:
  // Between the end of a turn and the next one: two messages.
  static constexpr Duration kTurnGap = microseconds(80);

  // `policy` is as the registry reads it.
  explicit LaneLoad(const std::string& policy);
  ~LaneLoad();
  // Numbered from 1. Requires: run() was not called.
  void add(const LoadJob& job);
  void run(TimePoint until);
  const LoadResult& result(uint64_t job) const;

 private:
  struct Client;
  struct Open;

  void send(const lanes::Event& event);
  void begin(uint64_t id);
  void submit(Client& client);
  // Everything up to this time that is not the worker's.
  void pass_until(TimePoint time);
  TimePoint next_event() const;
  void run_one();
  bool is_over() const;
  void end_turn();

  std::unique_ptr<lanes::Scheduler> scheduler_;
  TimePoint now_;
  std::map<JobId, Client> clients_;
  std::multimap<TimePoint, JobId> submissions_;
  std::unique_ptr<Open> turn_;  // the worker's; null: none is open
};

}  // namespace laneway::simulation
