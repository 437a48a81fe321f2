// Eviction: images leave the pool so that others find room. The policy says which image leaves
// next; none leaves in vain: a trial (room_trial.h) shows first that the room of those that leave
// suffices, and an image stays if the room suffices without it. Each goes to its home outside, or
// to another place there that costs less (outside_map.h); an image without a home stays. Part of
// the core; not thread-safe.
//
// When an image may leave the stay rule says (stay_rule.h); who does, the policy. A job with work
// that is more urgent than who wants the room stays; one that is less urgent leaves at once. Pinned
// images stay. While somebody waits for memory turns are given back when they have nothing to run,
// so who is idle is known.
//
// Before anybody leaves, what stayed of images that left is given up; and of those that leave now,
// the beginnings stay as far as the room suffices without them (prefix_control.h).
//
// For each that waits one set of images leaves at a time, and to each tier: who else waits is tried
// again when it has left, or is late (copies_out.h).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"
#include "lanes/images/prefix_control.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/state/room_trial.h"
#include "lanes/turns/turn_control.h"
#include "policies/decision.h"

namespace laneway::lanes {

class Eviction {
 public:
  enum class Outcome : uint8_t {
    under_way,  // images leave, or are asked to soon
    nobody,     // to leave would help
  };

  // All arguments must outlive the object.
  Eviction(CoreState& core, CheckedPolicy& policy, TurnControl& turns)
      : core_(core), policy_(policy), turns_(turns) {}

  // Gives up beginnings of images that left, if that makes room: now, or when open turns have
  // ended. Returns whether some were given up.
  bool give_up_prefixes(const Wish& wish);
  // Images leave for the wish, if that helps.
  Outcome make_room(const Wish& wish);
  // Images leave for the job, and none of them is late: what they give up is for it.
  bool is_making_room_for(JobId job) const { return leave_already_until(job) > core_.now; }
  // Nobody else's leaving would help the held job: its own does, if it may, because it comes back
  // to where its lane has room.
  void leave_to_return(const Job& held);
  // The pool becomes smaller: images that lie above its new end leave, and below it the one that
  // was not used for longest, while a region or a pinned image above finds no room there. A pinned
  // one leaves when nobody else can, and comes back.
  void empty_above(Bytes limit);
  // Its client wants it out of the pool. Nothing happens when it is not there, or is pinned.
  void unload(Job& job);

  // The turn of a job that leaves has ended.
  void leave_now(Job& job);
  void left(Job& job);
  void failed(Job& job);
  // The image in the pool differs from the copy outside from now on.
  void dirty(Job& job);

 private:
  using Leaving = std::vector<JobId>;
  // By arrival.
  struct Candidates {
    std::vector<policies::EvictCandidate> now;    // may leave
    std::vector<policies::EvictCandidate> later;  // will, if nothing changes
    TimePoint next = TimePoint::never();          // when the first of these may
  };
  Candidates candidates(const Wish& wish) const;
  struct Choice {
    Leaving leaving;
    bool suffices = false;
    TimePoint again = TimePoint::never();  // when the policy may answer otherwise
  };
  // From when on it may leave for the wish; `idle`: it has nothing to run.
  TimePoint leaves_for(const Wish& wish, const Job& job, bool idle) const;
  Choice choose(const Wish& wish, std::vector<policies::EvictCandidate> candidates);
  // Nobody has to leave: beginnings are given up, or turns that end make room.
  void make_room_without_leaving();
  // Only images that leave make room for it below the limit.
  bool something_is_stuck_above(Bytes limit) const;
  // None: nobody could leave now.
  JobId first_to_leave();
  // Who leaves, and what is given up before: beginnings of images that left.
  struct Gone {
    const Leaving& leaving;
    const std::vector<JobId>& prefixes;
  };
  // Of those that leave, so much of each stays as `keeps` says; the others go entirely.
  bool suffices(const Wish& wish, const Gone& gone, const RoomTrial::Keeps& keeps = {}) const;
  // What may stay of those that leave for `wish`, or for nobody.
  RoomTrial::Keeps what_stays(const Wish* wish, const Leaving& leaving) const;
  // Nobody can leave now, and without the beginnings the bytes are there, if not in one piece: they
  // are given up, and images may move.
  bool give_up_for_moves(const Wish& wish);
  // Returns false, and nothing changes, if one of them has no home (exchange.h).
  bool let_go(const Leaving& leaving, const RoomTrial::Keeps& keeps, JobId wants = {});
  // Images leave for the job already: until when they are in time. The past: none do.
  TimePoint leave_already_until(JobId wants) const;
  // When all of them may be sent where they go; now, if nothing is in the way.
  TimePoint may_be_sent(const Leaving& leaving) const;
  void ended(Job& job);
  void retry_by(TimePoint time) { core_.retry_by(CoreState::Wait::eviction, time); }

  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
  PrefixControl prefixes_{core_};
};

}  // namespace laneway::lanes
