// Snapshot: a copy of the core's state as plain data, for `status`, maps of the pool and checkers.
// Sequences are ordered by id, the pool's pieces by offset.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "lanes/state/counters.h"
#include "lanes/state/job.h"
#include "lanes/state/lane.h"
#include "lanes/state/reason.h"
#include "memory/ledger.h"

namespace laneway::lanes {

struct JobStatus {
  JobId id;
  SessionId session;
  JobOptions options;
  JobState state = JobState::waiting;
  LaneId lane;  // none: not admitted, or over
  bool ready = false;
  TimePoint offered_at;
  Bytes persistent;
  Bytes ephemeral;
  uint64_t iterations = 0;
  Duration device_time;
  // By how much it will miss its deadline, by what the policy knows; nothing: not, or not known.
  std::optional<Duration> late;
  // How often iterations were held for more urgent ones, and for how long in all those that are
  // not held any more.
  uint64_t pauses = 0;
  Duration paused = Duration();
  uint64_t abandoned = 0;  // iterations that were given up for more urgent jobs
  Reason reason;           // while the job waits; its position counts from 1
  std::optional<TimePoint> waiting_since = {};  // lanes/state/standing.h
  // Wall-clock time per iteration lately; zero: unknown. The core does not know it: the code that
  // shows the snapshot fills it in.
  Duration pace = Duration();
  // Where the image's bytes lie, or will lie when copies that are under way have ended. Of an image
  // that is away, its beginning may be in the pool still.
  Bytes pool_bytes = Bytes();
  Bytes store_bytes = Bytes();
  Bytes spill_bytes = Bytes();
  bool clean = false;     // there is a whole copy outside of the pool
  bool arriving = false;  // its bytes are on the way into the pool, and it may run meanwhile
  bool pinned = false;    // the client wants the image in the pool
  // As in Job.
  std::optional<TimePoint> first_iteration = {};
  std::optional<TimePoint> last_iteration = {};
};

struct LaneStatus {
  LaneId id;
  RegionId region;
  LaneState state = LaneState::idle;
  std::vector<JobId> jobs;
  JobId running;  // none: idle
};

struct RegionStatus {
  RegionId id;
  LaneId lane;
  Bytes offset;
  Bytes size;
};

enum class PieceKind : uint8_t { free, image, region };
// A piece of the pool and its owner; the pieces tile [0, capacity).
struct PoolPiece {
  PieceKind kind = PieceKind::free;
  Bytes offset;
  Bytes size;
  JobId job;        // of an image
  RegionId region;  // of a region
  LaneId lane;      // of a region
};

struct Snapshot {
  // Of the last event; the code that shows the snapshot puts in the time at which it does.
  TimePoint now;
  std::string policy;
  uint64_t policy_faults = 0;   // answers that were refused
  uint64_t ignored_events = 0;  // about jobs or turns that do not exist (any more)
  bool worker_up = true;
  Bytes capacity;
  Bytes wanted_capacity;  // which it will have when what is in the way has gone
  Bytes reserve;
  Bytes claimed;  // reserve included
  std::array<Bytes, memory::kClaimClassCount> claimed_by_class{};
  Bytes largest_free;
  struct Outside {
    Bytes capacity;
    Bytes claimed;        // for jobs that may leave to there, or have
    Bytes used;           // by images that are there
    bool stalls = false;  // a copy to or from it is late: nobody else is sent there meanwhile
  };
  Outside store;  // the tiers outside of the pool; a capacity of 0: there is none
  Outside spill;
  std::vector<JobStatus> jobs;   // the jobs that exist
  std::vector<JobStatus> ended;  // the last few jobs that are over, oldest first
  std::vector<LaneStatus> lanes;
  // Of lanes with jobs that are no inferences, as measured (lane_limit.h); nothing: it is not.
  std::optional<uint32_t> lane_limit;
  bool lane_trial = false;  // it is being measured
  std::vector<RegionStatus> regions;
  std::vector<PoolPiece> pool;
  Counters counters;
};

struct CoreState;
// Fills in all fields but those of the policy.
Snapshot take_snapshot(const CoreState& core);

}  // namespace laneway::lanes
