// Observed: what an outsider knows who sees only the events that go into the core and the actions
// that come out. The checkers' own bookkeeping; it shares no code with the scheduler, so that an
// error there is not repeated here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/time.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"

namespace laneway::simulation {

struct Range {
  int64_t offset = 0;
  int64_t size = 0;
};

struct SeenJob {
  lanes::JobOffered offer;
  uint64_t arrival = 0;
  int64_t image_need = 0;   // rounded
  int64_t region_need = 0;  // rounded
  int64_t must = 0;         // … of the iteration that did not fit
  // While it is quarantined, which it is as long as its iterations are not run: what it will need.
  std::optional<int64_t> need_when_released;
  LaneId lane;             // none until admitted
  bool placed = false;     // ImagePlaced was delivered
  bool arriving = false;   // … and its bytes are still on the way
  bool announced = false;  // has work that no turn looked for yet
  bool ended = false;      // its end was asked for, or it failed
  TurnId turn;             // the open one
  uint64_t queue = 0;      // its place among those that wait
  bool leaving = false;    // EvictImage was said, and not answered
  int64_t keep = 0;        // … and so much of the image stays
  bool saving = false;     // SaveImage was said, and not answered
  bool away = false;       // its image is outside only
  bool wanted_in = false;  // its client asked for it while it was away
  bool aside = false;      // it waits, and nobody behind it
  bool waits() const { return !lane.valid() && !aside && (!away || announced || wanted_in); }
  uint64_t iterations = 0;
  int64_t busy_ns = 0;
  uint64_t counted = 0;   // of them, those that count against its total
  uint64_t measured = 0;  // of these, all but the probes; the older ones halved
  int64_t measured_ns = 0;
  uint64_t turns = 0;  // that ended since the core was made
};

struct SeenLane {
  RegionId region;
  JobId running;
  bool recalled = false;
  bool hurried = false;  // … for a more urgent job
};

struct SeenCopy {
  lanes::Tier tier = lanes::Tier::none;
  Range range;
};

struct SeenTurn {
  JobId job;
  LaneId lane;
};

class Observed {
 public:
  Observed(int64_t pool_bytes, int64_t reserve_bytes, int64_t unit)
      : capacity(pool_bytes),
        wanted_capacity(pool_bytes),
        reserve(reserve_bytes),
        alignment(unit) {}

  void apply(const lanes::Event& event);
  void apply(const lanes::Action& action);

  int64_t rounded(Bytes bytes) const;
  // Images, what stayed of them, regions and the reserve.
  int64_t claimed() const;
  // Of that, what is given up when somebody needs it.
  int64_t on_demand() const;
  int64_t capacity_of(lanes::Tier tier) const { return tier == lanes::Tier::store ? store : spill; }
  // Longest run of bytes without image or region; `without` is taken as free, and so is what is
  // given up on demand.
  int64_t largest_gap(RegionId without = {}) const;
  // Could be granted a turn if its lane is idle: in the pool, with work, fitting its region.
  bool eligible(const SeenJob& job) const;
  bool fits_lane(const SeenJob& job) const;
  // Whether the limit of lanes lets the job be there; a lane that does not exist is a new one.
  bool may_be_in(const SeenJob& job, LaneId lane) const;

  int64_t capacity;         // the largest that the core may count on now
  int64_t wanted_capacity;  // what it was told last
  int64_t reserve;
  int64_t alignment;
  int64_t store = 0;
  int64_t spill = 0;
  TimePoint now;            // of the last event
  uint32_t lane_limit = 0;  // of lanes with jobs that are no inferences, as the core says it
  bool worker_up = true;
  std::map<JobId, SeenJob> jobs;  // offered, not refused, not gone
  std::map<LaneId, SeenLane> lanes;
  std::map<TurnId, SeenTurn> turns;  // open
  std::map<JobId, Range> images;
  std::map<JobId, Range> moves;     // where images go that MoveImage named, until the answer
  std::map<JobId, Range> prefixes;  // of images that left, or are copied from there
  std::map<RegionId, Range> regions;
  std::map<JobId, SeenCopy> outside;

 private:
  void on_outside(const lanes::Event& event);
  void on_outside(const lanes::Action& action);
  void left(SeenJob& job);
  bool is_on_demand(JobId prefix) const;
  void on(const lanes::JobOffered& event);
  void on(const lanes::TurnEnded& event);
  void set_need(SeenJob& job, Bytes need) const;
  // A core made anew: it knows what the report says, and that alone.
  void on(const lanes::WorkerReported& event);
  void end(SeenJob& job);
  void close_turn(TurnId turn);

  uint64_t arrivals_ = 0;
};

}  // namespace laneway::simulation
