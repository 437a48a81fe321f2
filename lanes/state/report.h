// WorkerReport: a worker's whole state of jobs, lanes and turns, as plain data: enough for a new
// core to continue where the old one stopped. It shows one moment of the worker, after all actions
// of the old core were carried out; later events of the worker refer to this state. A new broker
// (its worker kept running) and a new worker (it read its predecessor's journal) both use it.
//
// A report comes from another process: the core checks every number of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "lanes/state/image_life.h"
#include "lanes/state/iteration_sum.h"
#include "lanes/state/job_offered.h"
#include "lanes/state/learnt.h"

namespace laneway::lanes {

struct ReportedJob {
  JobOffered offer;  // with the needs as known now
  // None: the job was not admitted, or is away. Else its image has a range, and the report has a
  // region of this lane.
  LaneId lane;
  Bytes image_offset;
  Bytes image_size;  // as in PlaceImage
  // Of coming: PlaceImage is to be asked for again. Of arriving, saving and leaving: the answer
  // comes. None moves: that was given up before. The prefix of one that comes is a range beside its
  // own. A copy that is being made is not clean, and none of an image that leaves is told as clean.
  ImageLife image;
  Bytes prefix_wanted;  // as the last PrefixWanted said
  bool pinned = false;
  bool ready = false;  // submissions are queued that no open turn will take
  // The job failed or was closed: it does not run any more, and its memory must be given back.
  bool over = false;
  // None of its iterations is run until JobReleased.
  bool quarantined = false;
  // Counts of turns that have ended. Those of an open turn come with its TurnEnded.
  uint64_t iterations = 0;
  Duration busy;
  uint64_t uncounted = 0;      // as in TurnEnded
  IterationSum measured = {};  // of those that count, all but the probes, as far as they are known
  // As the last KeepLearnt had it.
  Learnt learnt = {};
  TurnId turn;          // the open turn, or none
  bool paused = false;  // … in which an iteration is held: TurnResumed comes
};

struct ReportedRegion {
  RegionId region;
  LaneId lane;
  Bytes offset;
  Bytes size;
};

struct WorkerReport {
  std::vector<ReportedJob> jobs;
  std::vector<ReportedRegion> regions;
  // The last ids that the worker has seen. The new core's ids begin behind them, so that a late
  // message about an old turn or region cannot be taken for one about a new one.
  TurnId last_turn;
  RegionId last_region;
};

}  // namespace laneway::lanes
