// Advisory: what is told to the adviser of the policy (policies/advised.h): of each instant the
// facts of the jobs that its events and the core's actions were about, as they are when all has
// been decided. Without such a policy, or while its adviser is not there, nothing. Part of the
// core; not thread-safe.
#pragma once

#include <set>
#include <span>

#include "base/ids.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/state/event.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class Advisory {
 public:
  // All of them must outlive the object.
  Advisory(CoreState& core, CheckedPolicy& policy, TurnControl& turns)
      : core_(core), policy_(policy), turns_(turns) {}

  // The adviser is there from now on, and knows nothing; or it is not any more.
  void came();
  void went();
  // Another policy decides from now on, whose adviser, if it has one, is not there yet.
  void follow_policy() { went(); }
  // All jobs are told with this instant.
  void ask_all() { all_ = true; }

  // Before the events are handled: a turn's job is known until then.
  void note(std::span<const Event> events);
  // When all has been decided: adds the actions.
  void tell();

 private:
  void note_actions();
  void tell(JobId id);

  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
  bool is_there_ = false;
  bool all_ = false;
  std::set<JobId> news_;   // of this instant
  std::set<JobId> known_;  // whom the adviser was told of
};

}  // namespace laneway::lanes
