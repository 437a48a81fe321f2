// View: what a policy sees of the core. The core keeps it incrementally (an event changes only what
// it is about; nothing is rebuilt), a policy reads it. All sequences are ordered by arrival of the
// jobs, or by id of the lanes; nothing in it has an order that differs from run to run.
//
// Pointers that a policy finds here are valid during the call that showed them, not longer.
// Not thread-safe: it belongs to the core, which is single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/job_options.h"
#include "base/time.h"
#include "policies/moving_mean.h"
#include "policies/transfer_rates.h"

namespace laneway::policies {

struct JobView {
  // First what is looked at of every candidate for a turn: together it is a line of the cache.
  JobId id;
  uint64_t arrival = 0;     // 1, 2, 3, … in the order of the offers: unique, breaks every tie
  uint64_t iterations = 0;  // done so far
  // See remaining().
  static constexpr int64_t kUnknown = INT64_MAX;
  int64_t remaining_ns = kUnknown;
  // Since when it waits for an iteration: its work was announced, or the last turn that did any of
  // it ended with more to do.
  TimePoint ready_since;
  LaneId lane;           // none while waiting
  uint32_t turns = 0;    // that have ended
  bool ready = false;    // stands in its lane's `ready`
  bool running = false;  // has an open turn

  JobOptions options;  // as its client chose them
  SessionId session;
  // Its place among those that wait: its arrival, or, when its image was outside and is wanted in
  // the pool again, behind all who waited then.
  uint64_t queue = 0;
  TimePoint offered_at;
  TimePoint queued_at;          // since when it stands in that place
  Bytes persistent;             // its image
  Bytes ephemeral;              // what its lane's region must have
  uint64_t context_key = 0;     // jobs with different keys never run at the same time
  Duration busy;                // device time spent on them, without waits and pauses
  uint64_t counted = 0;         // of them, those that count against options.total_iterations
  MovingMean counted_time;      // device time of these lately, without those that were probes
  Duration iteration_estimate;  // as measured by jobs with equal graphs; 0: unknown
  TimePoint placed_at;          // since when its image is in the pool
  TimePoint used_at;            // when its last iteration ended, or its image was placed
  TimePoint turn_began;         // its last one
  uint64_t tried_version = 0;   // see View::was_tried

  // Of an iteration that counts: measured lately; else the mean of all that were done; else
  // what was measured of equal graphs; else what the client said; 0 when nothing is known.
  Duration mean_iteration_time() const;
  // What is left of the declared total x mean iteration time; nothing when either is unknown: a job
  // that has done more than it declared is one of which nothing is known. Cached: reading it costs
  // no division.
  std::optional<Duration> remaining() const {
    if (remaining_ns == kUnknown) return std::nullopt;
    return Duration(remaining_ns);
  }
  // Puts the cached value right after a change of iterations, busy, total or estimate.
  void update_remaining();
};

struct LaneView {
  LaneId id;                          // none: this lane does not exist now
  Bytes region;                       // size of its region
  JobId running;                      // whose turn is open; none when idle
  std::vector<const JobView*> jobs;   // by arrival
  std::vector<const JobView*> ready;  // those of `jobs` that could be granted a turn; by arrival
};

class View {
 public:
  explicit View(uint32_t max_lanes);

  // Jobs that are not admitted, by `queue`.
  const std::vector<const JobView*>& waiting() const { return waiting_; }
  // The lane, or nullptr when it does not exist.
  const LaneView* lane(LaneId id) const {
    if (!id.valid() || id.value() > lanes_.size()) return nullptr;
    const LaneView& lane = lanes_[id.value() - 1];
    return lane.id.valid() ? &lane : nullptr;
  }
  // Slot i is lane i + 1; a slot without a lane has no id.
  const std::vector<LaneView>& lane_slots() const { return lanes_; }
  uint32_t open_lanes() const { return open_lanes_; }
  uint32_t max_lanes() const { return static_cast<uint32_t>(lanes_.size()); }

  // Whether the core tried to admit this waiting job since memory or lanes last changed, and found
  // no room. Answering with it again is pointless; a policy that wants to admit strictly in its
  // order answers "nobody" instead, one that fills gaps goes on to its next best.
  bool was_tried(const JobView& job) const { return job.tried_version == version_; }

  struct Pool {
    Bytes capacity;
    Bytes claimed;           // by everybody, the reserve included
    Bytes largest_free;      // longest free piece
    bool may_leave = false;  // there is a tier outside: images can leave
  };
  const Pool& pool() const { return pool_; }
  // How long images are on their way.
  const TransferRates& transfers() const { return transfers_; }

  // The core's side. A JobView is borrowed until it is removed again.
  void add_waiting(const JobView& job);
  void remove_waiting(const JobView& job);
  void open_lane(LaneId id, Bytes region);
  void close_lane(LaneId id);
  void set_region(LaneId id, Bytes region);
  void set_running(LaneId id, JobId job);
  void add_to_lane(const JobView& job);
  void remove_from_lane(const JobView& job);
  void add_ready(const JobView& job);
  void remove_ready(const JobView& job);
  void set_pool(const Pool& pool) { pool_ = pool; }
  TransferRates& learnt_transfers() { return transfers_; }
  // Memory or lanes changed in a way that may let somebody in: forgets who was tried.
  void forget_tries() { ++version_; }
  uint64_t version() const { return version_; }

 private:
  LaneView& slot(LaneId id);

  // Where in waiting_ the job of this place in the queue is or belongs.
  std::ptrdiff_t place_of(uint64_t queue) const;

  std::vector<const JobView*> waiting_;  // by `queue`
  std::vector<LaneView> lanes_;
  uint32_t open_lanes_ = 0;
  Pool pool_;
  TransferRates transfers_;
  uint64_t version_ = 1;
};

}  // namespace laneway::policies
