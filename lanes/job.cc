#include "lanes/job.h"

#include "base/check.h"

namespace laneway::lanes {
namespace {

struct Rule {
  JobState from;
  JobState to;
  Transition transition;
};

using enum JobState;
constexpr Rule kRules[] = {
    {waiting, staged, Transition::allowed},         // admitted
    {waiting, finished, Transition::allowed},       // closed before it got in
    {waiting, failed, Transition::allowed},         // the pool became too small for it
    {waiting, cancelled, Transition::allowed},      //
    {staged, resident, Transition::allowed},        // its image is placed
    {staged, held, Transition::allowed},            // … but its lane is too small meanwhile
    {staged, finished, Transition::allowed},        //
    {staged, failed, Transition::allowed},          //
    {staged, cancelled, Transition::allowed},       //
    {resident, running, Transition::allowed},       // a turn is granted
    {resident, held, Transition::allowed},          // its need grew and there is no room
    {resident, finished, Transition::allowed},      //
    {resident, failed, Transition::allowed},        //
    {resident, cancelled, Transition::allowed},     //
    {running, resident, Transition::allowed},       // the turn ended
    {held, resident, Transition::allowed},          // its lane was grown
    {held, finished, Transition::allowed},          //
    {held, failed, Transition::allowed},            //
    {held, cancelled, Transition::allowed},         //
    {running, paused, Transition::later},           // preemption between nodes
    {paused, running, Transition::later},           //
    {paused, cancelled, Transition::later},         //
    {resident, evicting, Transition::allowed},      // others need the room
    {held, evicting, Transition::allowed},          //
    {quarantined, evicting, Transition::allowed},   //
    {evicting, away, Transition::allowed},          // its image is outside
    {evicting, resident, Transition::allowed},      // the copy failed
    {evicting, quarantined, Transition::allowed},   //
    {evicting, held, Transition::allowed},          // … and its lane is too small meanwhile
    {evicting, finished, Transition::allowed},      //
    {evicting, failed, Transition::allowed},        //
    {evicting, cancelled, Transition::allowed},     //
    {waiting, away, Transition::allowed},           // a report says that its image is outside
    {away, restoring, Transition::allowed},         // admitted again
    {away, finished, Transition::allowed},          //
    {away, failed, Transition::allowed},            //
    {away, cancelled, Transition::allowed},         //
    {restoring, resident, Transition::allowed},     // its image is placed
    {restoring, finished, Transition::allowed},     //
    {restoring, failed, Transition::allowed},       //
    {restoring, cancelled, Transition::allowed},    //
    {staged, quarantined, Transition::allowed},     // a worker's report says so
    {quarantined, running, Transition::allowed},    // its state is read, its requests are refused
    {running, quarantined, Transition::allowed},    //
    {quarantined, resident, Transition::allowed},   // released
    {quarantined, held, Transition::allowed},       // … but its lane is too small meanwhile
    {quarantined, finished, Transition::allowed},   //
    {quarantined, failed, Transition::allowed},     //
    {quarantined, cancelled, Transition::allowed},  //
    {restoring, quarantined, Transition::allowed},  //
};

}  // namespace

const char* job_state_name(JobState state) {
  switch (state) {
    case waiting: return "waiting";
    case staged: return "staged";
    case resident: return "resident";
    case running: return "running";
    case paused: return "paused";
    case held: return "held";
    case evicting: return "evicting";
    case away: return "away";
    case restoring: return "restoring";
    case quarantined: return "quarantined";
    case finished: return "finished";
    case failed: return "failed";
    case cancelled: return "cancelled";
  }
  return "unknown";
}

Transition job_transition(JobState from, JobState to) {
  for (const Rule& rule : kRules) {
    if (rule.from == from && rule.to == to) return rule.transition;
  }
  return Transition::impossible;
}

Status check_job_transition(JobState from, JobState to) {
  const std::string names =
      std::string("'") + job_state_name(from) + "' to '" + job_state_name(to) + "'";
  switch (job_transition(from, to)) {
    case Transition::allowed: return {};
    case Transition::later:
      return Error{ErrorCode::unsupported,
                   "a job can't go from " + names + " yet: this build has no way to do it"};
    case Transition::impossible: break;
  }
  return Error{ErrorCode::internal, "a job never goes from " + names};
}

void Job::quarantine() {
  quarantined = true;
  need_when_released = view.ephemeral;
  view.ephemeral = Bytes();
}

void Job::move_to(JobState state) {
  if (job_transition(state_, state) != Transition::allowed) {
    check_failed("job_transition", __FILE__, __LINE__,
                 "job " + std::to_string(view.id.value()) + ": " +
                     check_job_transition(state_, state).error().message);
  }
  state_ = state;
}

}  // namespace laneway::lanes
