// RegionControl: where regions lie and how large they are. A region has the size that its lane's
// neediest job wants; it changes only while no turn is open in the lane. A job for which there is
// no room is held, and the region shrinks to what the others need, so that held jobs never sit on
// memory that would free them. Part of the core; not thread-safe.
#pragma once

#include "lanes/core_state.h"
#include "lanes/job_exit.h"
#include "lanes/turn_control.h"

namespace laneway::lanes {

class RegionControl {
 public:
  // All must outlive it.
  RegionControl(CoreState& core, TurnControl& turns, JobExit& exit)
      : core_(core), turns_(turns), exit_(exit) {}

  // The region gets the size that the lane's jobs need; a lane without jobs is closed. Requires: no
  // turn is open in the lane.
  void fit_region(Lane& lane);
  // The job needs a region of this size from now on. A job that can never fit is refused: `job` may
  // be gone afterwards.
  void set_need(Job& job, Bytes ephemeral);
  // Puts every job of the lane on the right side of `held` after its region or their needs changed.
  void mark_held(Lane& lane);
  // Tells of the region's new place and size.
  void report_region(const Lane& lane);

  // Memory was freed: held jobs get it before a waiting one, in order of arrival.
  void retry_held();
  // The pool becomes as large as was asked. Growing happens at once. Shrinking waits until all
  // above the new end is gone: no job is admitted meanwhile, regions are moved down between turns,
  // images end with their jobs.
  void apply_capacity();
  // A region that is larger than its jobs need keeps its size while a turn is open, which is for
  // ever where no rival ends it: not when a job waits for the memory.
  void recall_unfitted();

 private:
  // The largest of its jobs' needs for which there is room.
  void fit_to_jobs(Lane& lane);
  Room resize_region(Lane& lane, Bytes size);
  void close_lane(Lane& lane);
  void make_room_below(Bytes limit);
  // The pool got smaller for good: jobs that can never fit are refused.
  void refuse_too_large();

  CoreState& core_;
  TurnControl& turns_;
  JobExit& exit_;
};

}  // namespace laneway::lanes
