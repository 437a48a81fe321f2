// TurnControl: grants and recalls turns. A turn without a rival stays open; when a rival gets ready
// the policy is asked whether it goes on, and while rivals exist turns have a budget: the policy's,
// or config.budget when it names none. In a trial (lane_limit.h) lanes take turns too. Part of the
// core; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/turns/company.h"
#include "lanes/turns/context_turns.h"
#include "lanes/turns/deadlines.h"
#include "lanes/turns/lane_turns.h"
#include "lanes/turns/lanes_apart.h"

namespace laneway::lanes {

class TurnControl {
 public:
  // Both must outlive the object.
  TurnControl(CoreState& core, CheckedPolicy& policy);

  // Records that the job has work: it is a candidate for the next turn of its lane, if it is
  // resident.
  void announce_work(Job& job);
  // Whether the open turns, and who waits for others to end, let a turn of the job begin now.
  bool may_begin(const policies::JobView& job) const {
    return contexts_.may_open(job.context_key) || contexts_.is_next(job.context_key);
  }
  // Lanes whose open turn has no bound: its job may have nothing to run.
  LaneSet unbounded() const { return unbounded_; }
  // Opens a turn in the lane if it is idle and has a candidate that may run now; recalls the open
  // one if a rival got ready and the policy wants that.
  void settle_lane(Lane& lane);
  // Asks the lane's open turn to end. Does nothing when no turn is open, or it was asked already.
  void recall(Lane& lane);
  // Somebody who waits needs the lane between two turns, and is tried again then.
  void ask_boundary(Lane& lane) {
    lane.admission_wanted = true;
    recall(lane);
  }
  // As recall, because of what `wants` needs: if that job may interrupt the turn's, soon.
  void recall_for(Lane& lane, const Job& wants);
  // The iteration of the lane's open turn is held, or goes on after so long. Held time is no part
  // of the turn's slice. Requires: lane.open().
  void pause(Lane& lane);
  void resume(Lane& lane, Duration paused);
  // Records that the lane's turn is over, and tells beside whom it ran. Requires: lane.open().
  Stretch close_turn(Lane& lane);
  // If keys of numeric contexts wait, gives turns to the one that waited longest as soon as it may
  // run, which is when the period of the open one is over. Returns whether keys waited, and do no
  // more.
  bool settle_contexts();
  // Lanes that wait for turns of others begin, in their order, as far as they may.
  void settle_lane_turns();
  const LaneTurns& lane_turns() const { return apart_.waiting(); }
  // Turns tell what they were in a trial of this level from now on (lane_limit.h; 0: in none), and
  // open ones end soon.
  void watch_level(uint32_t level);
  // Whether numeric contexts wait for others.
  bool contexts_wait() const { return contexts_.contended(); }

  // Somebody waits for memory: open turns without a bound end, so that those which follow are given
  // back when they have nothing to run.
  void bound_open_turns();

  // Another policy decides from now on: it chooses what runs next, soon.
  void follow_policy();
  // Recalls the bounded turns that have used their time, if a rival still wants the lane.
  void recall_overdue();
  // Takes recalls of turns that have ended since out of the actions.
  void forget_old_recalls();
  // The time at which recall_overdue is due; TimePoint::never() when no bounded turn is open.
  TimePoint next_wakeup() const { return deadlines_.earliest(); }

  // Asks again how urgent the open turns are: the policy or a job's options are other ones.
  void ask_urgencies();

  // The lane in which this turn is open, or nullptr.
  Lane* lane_of_turn(TurnId turn);
  // The open turn of the lane; none when no turn is open.
  TurnId open_turn(LaneId lane) const { return open_turns_[lane.value() - 1]; }

  // For a core that takes over: new turns get ids behind this one.
  void continue_after(TurnId turn) { turn_ids_.continue_after(turn); }
  // Whether a turn that a worker reports can be open in this lane.
  bool may_reopen(const Lane& lane, TurnId turn, uint64_t context_key);
  // Opens that turn without a bound: reports have no bounds, and a superfluous recall does no harm.
  // Requires: may_reopen, and `job` is resident in the lane.
  void reopen(Lane& lane, Job& job, TurnId turn);

 private:
  // A job that may interrupt the open turn wants the lane: the turn's iteration may go on for as
  // long as that job's own take.
  void hurry(Lane& lane, const policies::JobView& wants);
  void try_grant(Lane& lane);
  void reconsider(Lane& lane);
  // Whether `job` may not begin in its lane, because in a trial others compute, or wait already. If
  // so the lane waits, and turns that are in its way end soon.
  bool must_wait(Lane& lane, Job& job);
  // These turns end soon, if they do not anyway.
  void shorten(LaneSet lanes);
  // Lanes may be too many, or too few.
  void note_load(const Lane& lane);
  void grant(Lane& lane, const policies::PickDecision& decision);
  // Tells the worker what is known of the job, whose turn begins, for a core after this one.
  void keep_learnt(Job& job);
  // The bound of a turn for which rivals wait.
  TurnBudget bound_of(const policies::PickDecision& decision) const;
  // … and for which other lanes wait, or which tells what a trial wants to know.
  TurnBudget brief(const TurnBudget& wanted, bool is_tried) const;
  // When a turn with this bound, from now on, is overdue.
  TimePoint overdue_at(const TurnBudget& budget) const;
  // Notes how urgent the turn is that begins, and who of the open turns interrupts whom.
  void set_urgency(Lane& lane, const Job& job);
  // Whether `wants` may interrupt the lane's open turn.
  bool may_interrupt(const Lane& lane, const policies::JobView& wants) const {
    return policy_.urgency(core_, wants) > urgencies_[lane.id.value() - 1];
  }
  void begin_turn(Lane& lane, Job& job, TurnId turn, const TurnBudget& budget);
  void recall_unbounded();
  // The policy's choice for the idle lane is a job of another numeric context than the open turns.
  // It waits; the lane has a turn of the open one while that has its period.
  void wait_for_context(Lane& lane, Job& job);
  void set_period(uint64_t key);
  void grant_one_of(Lane& lane, uint64_t key);
  // Of all jobs that have work and no turn; of those, whoever is due and may begin now does.
  std::set<uint64_t> keys_that_wait();
  void grant_context(uint64_t key);

  CoreState& core_;
  CheckedPolicy& policy_;
  std::vector<TurnId> open_turns_;                   // by slot; none when no turn is open
  std::vector<const policies::JobView*> open_jobs_;  // by slot: whose turn it is
  std::vector<int64_t> urgencies_;                   // by slot: of that job
  // By the last bits of a turn's id: the slot in which the last one with these bits was opened.
  std::array<uint8_t, 256> slots_{};
  // Whether all open turns are as urgent as that.
  bool equally_urgent_ = true;
  int64_t last_urgency_ = 0;
  Deadlines deadlines_;         // by slot: of bounded turns, but while they are paused
  std::vector<Duration> left_;  // by slot: of a paused turn, until its deadline
  std::vector<const policies::JobView*> rivals_;  // kept for its memory
  LaneSet unbounded_ = 0;
  ContextTurns contexts_;
  LanesApart apart_;
  Company company_;
  IdSource<TurnId> turn_ids_;
};

}  // namespace laneway::lanes
