// Actions: all that the core asks the worker and the edge to do, as plain data, in the order in
// which they must be carried out. Offsets and sizes are those of the ledger: the executor of an
// action must not add bytes.
#pragma once

#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "lanes/pool/image_prefix.h"
#include "lanes/pool/outside_place.h"
#include "lanes/state/job_facts.h"
#include "lanes/state/learnt.h"
#include "lanes/state/reason.h"
#include "lanes/state/turn.h"

namespace laneway::lanes {

// The job has a lane and memory; its PlaceImage follows.
struct AdmitJob {
  JobId job;
  LaneId lane;
};
// The job, which has no turn, is in another lane from now on, whatever its image is doing.
struct ChangeLane {
  JobId job;
  LaneId lane;
};
// The job waits. The core sends the action again when the code of its reason changes; where it
// stands in the queue is said by a snapshot.
struct QueueJob {
  JobId job;
  Reason reason;
};
// The job will never run (again), and the core forgets it. For a job that was admitted already (its
// need grew past the pool) DropImage follows.
struct RefuseJob {
  JobId job;
  Reason reason;
};
// The job's next iteration will not be run: it does not fit its lane, and everybody who could make
// room waits for room too. The executor fails that iteration, and the job goes on with what comes
// behind it. With ReasonCode::no_way_back its image is outside and can't come back: all that is
// queued (nothing, if its image was only wanted) fails, and what comes later is announced as the
// first.
struct RefuseWork {
  JobId job;
  Reason reason;
};
// Gives a job memory for its image, which comes from wherever its only whole copy is: the client's
// bytes, or the place outside of the pool to which it was written back. The executor must write
// every byte of it, and answer with ImagePlaced; it goes on with the next action meanwhile. A core
// that takes over sends the action again when its report says that the image is not placed. A copy
// outside stays valid until ImageDirty or DropCopy.
//
// The image's first bytes may be in the pool still: at their place in the image already, or in a
// range of their own, which is the job's until the ImagePlaced that is whole.
struct PlaceImage {
  JobId job;
  Bytes offset;
  Bytes size;
  ImagePrefix prefix = {};
};
// The job is over: the memory of its image and of the copy outside is free once this action was
// carried out.
struct DropImage {
  JobId job;
};
// A placed image leaves the pool: its bytes are copied to `to`, unless the copy that lies there is
// whole and equal, and that copy is the job's image from then on. The answer is ImageLeft: its
// range is free, and the job has no lane until AdmitJob; or CopyFailed, which costs the job
// nothing: its image stays, and the place outside is free. No turn of the job is open until the
// answer.
struct EvictImage {
  JobId job;
  OutsidePlace to;
  Bytes size;  // as in PlaceImage
  // So many of its first bytes stay where they are, and are no part of its free range.
  Bytes keep = {};
};
// A placed image is copied to `to` ahead of need, and stays. Work of the job that comes meanwhile
// stops the copy. The answer is ImageSaved, before any ImageDirty that follows from later work.
struct SaveImage {
  JobId job;
  OutsidePlace to;
  Bytes size;  // as in PlaceImage
};
// The copy outside of a placed image is given up: its place is free once this was carried out.
struct DropCopy {
  JobId job;
};
// A placed image moves to another range of the pool, apart from its own: every byte is copied, and
// the job's state is there from then on. Both ranges are the job's until the answer, which is
// ImagePlaced, or CopyFailed: then the image is where it was. No turn of the job is open until the
// answer. A worker that reports to a new core gives up moves under way first.
struct MoveImage {
  JobId job;
  Bytes offset;
  Bytes size;  // as in PlaceImage
};
// What stayed in the pool of an image that left is given up: its range is free once this was
// carried out.
struct DropPrefix {
  JobId job;
};
struct OpenRegion {
  RegionId region;
  LaneId lane;
  Bytes offset;
  Bytes size;
};
// The region may get another offset too. Requires: no iteration of its lane runs, so nothing in the
// region is alive.
struct ResizeRegion {
  RegionId region;
  Bytes offset;
  Bytes size;
};
struct CloseRegion {
  RegionId region;
};
// The pool has so many bytes from now on: nobody has any of those behind them, and nobody uses
// them.
struct ResizePool {
  Bytes capacity;
};
struct GrantTurn {
  Turn turn;
};
// Asks the lane to end this turn at the next iteration boundary and to report it (TurnEnded). An
// iteration that would take longer than `latest` from now on is given up, to be run again, if it
// has not written anything and was not given up too often: a more urgent job waits for it. Sent
// again when one comes later.
inline constexpr Duration kWhenever = Duration(INT64_MAX);
struct RecallTurn {
  TurnId turn;
  LaneId lane;
  Duration latest = kWhenever;
};

// What the core has learnt of a job whose turn begins: the worker keeps it for its report.
struct KeepLearnt {
  JobId job;
  Learnt learnt;
};

// What has changed is to be told to the adviser of the policy (policies/advised.h), if it is there:
// these are the job's facts now. The core does not wait for what it says. `gone`: the job is over,
// and only its id counts.
struct TellPolicy {
  JobFacts facts;
  bool gone = false;
};

using Action =
    std::variant<AdmitJob, QueueJob, RefuseJob, PlaceImage, DropImage, EvictImage, SaveImage,
                 DropCopy, DropPrefix, OpenRegion, ResizeRegion, CloseRegion, GrantTurn, RecallTurn,
                 RefuseWork, MoveImage, ChangeLane, ResizePool, KeepLearnt, TellPolicy>;

}  // namespace laneway::lanes
