// WorkerReport: everything that a worker knows of jobs, lanes and turns, as plain data: enough to
// make a new core that goes on where the old one stopped. Taken at one moment of the worker, after
// everything that the old core asked for was carried out: what the worker tells the core afterwards
// is about the state that the report shows. The one path for a new broker (whose worker went on
// meanwhile) and for a new worker (which reads its predecessor's journal).
//
// A report comes from another process: the core believes no number of it unchecked.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "lanes/job_offered.h"

namespace laneway::lanes {

struct ReportedJob {
  JobOffered offer;  // with the needs as known now
  // None: the job was not admitted. Else its image has its range, whether its bytes are there or
  // not, and a region of this lane is in the report.
  LaneId lane;
  Bytes image_offset;
  Bytes image_size;     // as PlaceImage gave it
  bool placed = false;  // the image's bytes are there: no PlaceImage is needed, ImagePlaced is told
  bool ready = false;   // submissions are queued that no open turn will look for
  // It failed or was closed: it runs no more, and its memory is to be given back.
  bool over = false;
  // Of turns that have ended. What an open turn did comes with its TurnEnded.
  uint64_t iterations = 0;
  Duration busy;
  TurnId turn;  // open; none
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
  // The last ids that the worker has seen: the new core's begin behind them, so that what is still
  // under way about an old one can't be taken for a new one.
  TurnId last_turn;
  RegionId last_region;
};

}  // namespace laneway::lanes
