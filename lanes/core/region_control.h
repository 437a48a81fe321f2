// RegionControl: places and sizes regions. A region has the size of the largest need among its
// lane's jobs; it changes only while no turn is open in the lane. Where there is no room for that
// it keeps what it has, and jobs run on with their smaller graphs. A job whose next iteration was
// found not to fit is held, and the region shrinks to the needs of the others, so that held jobs
// never occupy memory that would free them. Part of the core; not thread-safe.
#pragma once

#include <vector>

#include "lanes/core/job_exit.h"
#include "lanes/images/eviction.h"
#include "lanes/images/image_moves.h"
#include "lanes/state/core_state.h"
#include "lanes/state/room_trial.h"
#include "lanes/turns/lane_changes.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class RegionControl {
 public:
  // All arguments must outlive the object.
  RegionControl(CoreState& core, TurnControl& turns, JobExit& exit, ImageMoves& moves,
                Eviction& eviction, LaneChanges& changes)
      : core_(core),
        turns_(turns),
        exit_(exit),
        moves_(moves),
        eviction_(eviction),
        changes_(changes) {}

  // The region gets the size that the lane's jobs need; a lane without jobs is closed. Requires: no
  // turn is open in the lane.
  void fit_region(Lane& lane);
  // The job needs a region of this size from now on. A job that can never fit is refused; `job` may
  // then be destroyed.
  void set_need(Job& job, Bytes ephemeral);
  // Sets or ends the state `held` of every job of the lane, after the region or the jobs' needs
  // changed.
  void mark_held(Lane& lane);

  // Memory was freed: held jobs get it before a waiting one, in order of arrival. Regions slide,
  // jobs change lanes, and images move or leave, for one that finds none.
  void retry_held();
  // The bytes are there, and not in one piece: regions slide up if that helps. Returns whether one
  // did; those with open turns are asked to end them.
  bool slide_for(const Wish& wish);
  // All who have work are held, and nothing is under way: no event would come that frees memory.
  // The last one that arrived loses its iteration. Returns whether that was so. While there are
  // trainings that have nothing to run, and whose end would let one of the held run, those wait.
  bool refuse_stuck();
  // Brings the pool to the requested capacity. Growing happens at once. Shrinking waits until
  // nothing lies above the new end: meanwhile no job is admitted, regions are moved down between
  // turns, and so are images; others leave, or end with their jobs.
  void apply_capacity();
  // Recalls turns in regions that are larger than their jobs need, when a job waits for the memory.
  // Without that, a region keeps its size while a turn is open, and a turn without rivals stays
  // open for ever.
  void recall_unfitted();

 private:
  // Resizes the region to the largest of its jobs' needs for which there is room.
  void fit_to_jobs(Lane& lane);
  Room resize_region(Lane& lane, Bytes size);
  // Of the neediest of the lane's jobs.
  Bytes wanted_size(const Lane& lane) const;
  // Regions lie as in the trial from now on. Returns whether one lies elsewhere now.
  bool slide_as_tried(RoomTrial& trial);
  // Those of open turns that lie elsewhere then may slide when their turns have ended, soon.
  void recall_to_slide(const std::vector<Region>& then);
  // Done: the held job's lane was grown, or will be when its turn has ended.
  Room grow_for(const Job& held);
  void close_lane(Lane& lane);
  // Without these, bytes enough for one of the held (images may move then).
  bool end_would_help(const std::vector<JobId>& resting);
  void make_room_below(Bytes limit);
  // Regions sink if that makes room for images that must go below the limit. Returns whether one
  // did; those with open turns are asked to end them.
  bool sink_for_moves(Bytes limit);
  // Refuses the jobs that can never fit a pool that has become smaller.
  void refuse_too_large();

  CoreState& core_;
  TurnControl& turns_;
  JobExit& exit_;
  ImageMoves& moves_;
  Eviction& eviction_;
  LaneChanges& changes_;
};

}  // namespace laneway::lanes
