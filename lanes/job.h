// Job: the core's record of one job, and the state machine of jobs. `laneway status` shows the
// states. Some states need capabilities that this build does not have yet (preemption between
// nodes, eviction, quarantine); they stand in the table, and a transition to them is refused by
// name. Plain data plus a pure function; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "lanes/reason.h"
#include "policies/view.h"

namespace laneway::lanes {

enum class JobState : uint8_t {
  waiting,      // not admitted: its reason says why
  staged,       // admitted; its image is being placed in the pool
  resident,     // its image is in the pool; it runs when it has work and is picked
  running,      // a turn is open
  paused,       // (later) stopped between two nodes
  held,         // resident, but its lane's region is too small for it until memory is free
  evicting,     // (later) its image is being written back
  away,         // (later) its image is outside the pool
  restoring,    // (later) its image is coming back
  quarantined,  // (later) it caused faults twice and is not run again
  finished,     // closed by its client
  failed,       // an iteration failed, or it can never fit
  cancelled,    // killed, or its client died
};
inline constexpr size_t kJobStateCount = 13;

const char* job_state_name(JobState state);

enum class Transition : uint8_t { allowed, later, impossible };
// The table of the state machine.
Transition job_transition(JobState from, JobState to);
// Error unsupported for a transition of a later capability, internal for an impossible one; both
// name the two states.
Status check_job_transition(JobState from, JobState to);

struct Job {
  policies::JobView view;  // identity, sizes, progress, as policies see them

  Bytes image_offset;

  // True when work was announced and no turn was opened for it yet. While a turn is open the worker
  // may have taken the work already; a turn without work does no harm, a lost announcement would.
  bool work_announced = false;
  // True when its end was requested while a turn was open; it ends when the turn has ended.
  bool ending = false;
  JobState end_state = JobState::finished;

  Reason reason;       // why it waits or is held; code none otherwise
  Reason sent_reason;  // as the last QueueJob had it

  JobState state() const { return state_; }
  // Requires: the transition is allowed; another one is a bug of the core.
  void move_to(JobState state);

 private:
  JobState state_ = JobState::waiting;
};

}  // namespace laneway::lanes
