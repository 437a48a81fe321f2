// Events: the only input of the core, as plain data. The edge makes them (a client's message, a
// worker's report, a timer) and Scheduler::handle(now, events) consumes those of an instant. Given
// the same events at the same instants, the core decides the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/job_changes.h"
#include "base/time.h"
#include "lanes/state/iteration_sum.h"
#include "lanes/state/job_offered.h"
#include "lanes/state/report.h"
#include "lanes/state/turn.h"
#include "policies/job_advice.h"

namespace laneway::lanes {

// The job's client closed it or died, or it was killed.
struct JobEnded {
  JobId job;
  bool cancelled = false;
};
// The job's queue of submissions went from empty to ready.
struct WorkReady {
  JobId job;
};
// The iterations, time and memory that an ended turn used.
struct TurnEnded {
  TurnId turn;
  TurnEnd end = TurnEnd::idle;
  uint64_t iterations = 0;  // completed in this turn
  Duration busy;            // time spent running them
  bool more_ready = false;  // submissions are still queued
  // The job's region need as known now (planned peak, or estimate); 0: unchanged. After out_of_lane
  // it is a lower bound: the core raises a need that is not above the lane's size to that size and
  // a quarter.
  Bytes ephemeral;
  Duration idle = Duration();   // how long its job had had nothing to run when it ended
  IterationSum uncounted = {};  // of `iterations`, those that are none of the job's declared total
  IterationSum probes = {};     // of the others, those whose time says nothing of the next ones'
  uint64_t abandoned = 0;       // iterations that were given up for more urgent jobs
  // After out_of_lane: what the iteration that did not fit needs, which is less than `ephemeral` if
  // another graph of the job is larger; raised in the same way. 0: as much as that.
  Bytes must = Bytes();
};
// The iteration that runs in this turn is held between two nodes, because one of a more urgent turn
// runs in another lane; and it goes on, or was given up, after so long.
struct TurnPaused {
  TurnId turn;
};
struct TurnResumed {
  TurnId turn;
  Duration paused;
};
// A region's need changed outside a turn (a graph was added to the job).
struct NeedChanged {
  JobId job;
  Bytes ephemeral;
};
// A job with an equal graph measured an iteration; this one has done none.
struct TimeLearnt {
  JobId job;
  Duration iteration;
};
// The image's bytes lie at PlaceImage's offset; or, unless `whole`, they are arriving there from
// the job's copy outside, and its iterations may run and wait for the bytes that they need. Then a
// second one follows, which is `whole`.
struct ImagePlaced {
  JobId job;
  bool whole = true;
};
// A job that was quarantined is tried again.
struct JobReleased {
  JobId job;
};
// The image lies at EvictImage's place, and no more in the pool.
struct ImageLeft {
  JobId job;
};
// EvictImage or MoveImage went wrong: the image is in the pool as before; after EvictImage there is
// no copy of it.
struct CopyFailed {
  JobId job;
};
// SaveImage was done: the copy is whole and equal; or it was stopped or failed, and there is none.
struct ImageSaved {
  JobId job;
  bool whole = false;
};
// The image in the pool is about to differ from the copy outside, whose bytes are of no use now.
struct ImageDirty {
  JobId job;
};
// So much of the job's image, from its beginning on, should stay in the pool when it leaves: then
// the rest arrives in time for whoever needs it. 0: nothing.
struct PrefixWanted {
  JobId job;
  Bytes bytes;
};
// What a client asked about where a job's image is. Loading and unloading begin when they can, and
// are forgotten with the next wish or once they were done.
enum class Residency : uint8_t { load, unload, pin, unpin };
inline constexpr std::array<const char*, 4> kResidencyNames = {"load", "unload", "pin", "unpin"};
inline const char* residency_name(Residency wanted) {
  return kResidencyNames.at(static_cast<size_t>(wanted));
}
struct ResidencyWanted {
  JobId job;
  Residency wanted = Residency::load;
};
// A client or an operator changed what the policy is told of the job.
struct JobChanged {
  JobId job;
  JobChanges changes;
};
struct WorkerLost {};
// The pool is to have so many bytes. What lies behind them moves or leaves first, and nobody is
// admitted until then; jobs that the pool cannot hold then are refused (may_resize says beforehand
// whether there are any). ResizePool follows when it is so.
struct CapacityChanged {
  Bytes capacity;
};
struct TimerFired {};
// The whole state of a worker that has started. It rebuilds a core without jobs (made for a new
// broker or worker); a core with jobs ignores it.
struct WorkerReported {
  WorkerReport report;
};

// The adviser of the policy (policies/advised.h) says where the job stands.
struct Advice {
  JobId job;
  policies::JobAdvice advice;
};
// The adviser is there, and knows nothing: all jobs are told, and ranks of one before it are
// forgotten. Or it wants all of them told again. Or it is gone: fifo decides.
enum class AdviserNews : uint8_t { came, asks, gone };
struct AdviserChanged {
  AdviserNews news = AdviserNews::came;
};

using Event =
    std::variant<JobOffered, JobEnded, WorkReady, TurnEnded, NeedChanged, ImagePlaced, ImageLeft,
                 CopyFailed, ImageSaved, ImageDirty, PrefixWanted, ResidencyWanted, JobReleased,
                 WorkerLost, CapacityChanged, TimerFired, WorkerReported, JobChanged, TurnPaused,
                 TurnResumed, TimeLearnt, Advice, AdviserChanged>;

}  // namespace laneway::lanes
