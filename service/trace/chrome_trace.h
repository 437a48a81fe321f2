// ChromeTrace: a trace as Chrome's and Perfetto's JSON: a track for each lane with its turns and
// the iterations nested in them, instants for what happened to jobs and workers, and counters of
// the pool's bytes. nlohmann-json is named in chrome_trace.cc alone. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>

#include "base/ids.h"
#include "lanes/state/turn.h"
#include "service/trace/job_names.h"
#include "service/trace/pool_use.h"
#include "service/trace/trace_text.h"
#include "service/wire/trace_record.h"

namespace laneway::service {

class ChromeTrace {
 public:
  // Times are relative to `base_ns`. `out` outlives this object.
  ChromeTrace(std::ostream& out, int64_t base_ns);

  // In the order of the file.
  void add(const wire::trace::Record& record);
  // Turns that are still open end with the last record. Nothing is added afterwards.
  void finish();

 private:
  struct OpenTurn {
    LaneId lane;
    JobId job;
    int64_t start_ns = 0;
    int64_t paused_ns = 0;  // when the pause that is open began; 0: none is
  };
  struct Event;

  void add(const lanes::Event& event, int64_t now);
  void add(const lanes::Action& action, int64_t now);
  void end_pause(TurnId turn, int64_t now, Duration paused);
  void end_turn(TurnId turn, int64_t now, const std::string& why, uint64_t iterations);
  // All turns but those that the report speaks of.
  void end_turns(int64_t now, const std::string& why, const lanes::WorkerReport* but);
  void instant(int64_t now, const std::string& name, const std::string& what);
  void slice(const Event& event);
  void name_lane(LaneId lane);
  void write(const std::string& json);
  double microseconds(int64_t ns) const {
    return static_cast<double>(ns_between(base_ns_, ns)) * 1e-3;
  }

  std::ostream& out_;
  const int64_t base_ns_;
  bool first_ = true;
  int64_t last_ns_;
  JobNames names_;
  PoolUse pool_;
  std::map<TurnId, OpenTurn> turns_;
  std::set<LaneId> lanes_;    // that have a name
  bool knows_worker_ = true;  // the core has heard a worker's report
};

}  // namespace laneway::service
