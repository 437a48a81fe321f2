#include "lanes/state/job.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/limits.h"

namespace laneway::lanes {
namespace {

struct Rule {
  JobState from;
  JobState to;
};

using enum JobState;
constexpr Rule kRules[] = {
    {waiting, staged},         // admitted
    {waiting, finished},       // closed before it got in
    {waiting, failed},         // the pool became too small for it
    {waiting, cancelled},      //
    {staged, resident},        // its image is placed
    {staged, held},            // … but its lane is too small meanwhile
    {staged, finished},        //
    {staged, failed},          //
    {staged, cancelled},       //
    {resident, running},       // a turn is granted
    {resident, held},          // its need grew and there is no room
    {resident, finished},      //
    {resident, failed},        //
    {resident, cancelled},     //
    {running, resident},       // the turn ended
    {held, resident},          // its lane was grown
    {held, finished},          //
    {held, failed},            //
    {held, cancelled},         //
    {running, paused},         // between two nodes
    {paused, running},         //
    {paused, resident},        // its worker was lost
    {resident, evicting},      // others need the room
    {held, evicting},          //
    {quarantined, evicting},   //
    {evicting, away},          // its image is outside
    {evicting, resident},      // the copy failed
    {evicting, quarantined},   //
    {evicting, held},          // … and its lane is too small meanwhile
    {evicting, finished},      //
    {evicting, failed},        //
    {evicting, cancelled},     //
    {resident, moving},        // others need its range
    {held, moving},            //
    {quarantined, moving},     //
    {moving, resident},        // its image is in the new range, or stays
    {moving, quarantined},     //
    {moving, finished},        //
    {moving, failed},          //
    {moving, cancelled},       //
    {waiting, away},           // a report says that its image is outside
    {away, restoring},         // admitted again
    {away, finished},          //
    {away, failed},            //
    {away, cancelled},         //
    {restoring, resident},     // its image is placed
    {restoring, finished},     //
    {restoring, failed},       //
    {restoring, cancelled},    //
    {staged, quarantined},     // a worker's report says so
    {quarantined, running},    // its state is read, its requests are refused
    {running, quarantined},    //
    {quarantined, resident},   // released
    {quarantined, held},       // … but its lane is too small meanwhile
    {quarantined, finished},   //
    {quarantined, failed},     //
    {quarantined, cancelled},  //
    {restoring, quarantined},  //
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
    case moving: return "moving";
    case quarantined: return "quarantined";
    case finished: return "finished";
    case failed: return "failed";
    case cancelled: return "cancelled";
  }
  return "unknown";
}

bool job_transition_allowed(JobState from, JobState to) {
  return std::any_of(std::begin(kRules), std::end(kRules),
                     [&](const Rule& rule) { return rule.from == from && rule.to == to; });
}

void Job::quarantine() {
  quarantined = true;
  need_when_released = view.ephemeral;
  view.ephemeral = Bytes();
  must = Bytes();
}

void Job::release() {
  quarantined = false;
  if (state_ == JobState::quarantined) move_to(JobState::resident);
  note(Changed::jobs);  // its image may leave or move again
}

void Job::set_need(Bytes ephemeral) {
  view.ephemeral = ephemeral;
  must = std::min(must, ephemeral);
  note(Changed::ended);
  if (!view.lane.valid()) note(Changed::jobs);
}

void Job::end_later(JobState state) {
  ending = true;
  end_state = state;
  note(Changed::jobs);  // who counted on its leaving counts on others
}

void Job::change(const JobChanges& changes) {
  changes.apply_to(view.options);
  view.update_remaining();
  note(Changed::order);
  note(Changed::ended);
  note(Changed::lanes);  // of another class it may be one of those that the limit is about
}

void Job::learn_iteration_time(Duration time) {
  view.iteration_estimate = std::clamp(time, Duration(), limits::kMaxIterationTime);
  view.update_remaining();
  note(Changed::order);
}

void Job::move_to(JobState state) {
  if (!job_transition_allowed(state_, state)) {
    check_failed("job_transition_allowed", __FILE__, __LINE__,
                 "job " + std::to_string(view.id.value()) + " can't go from '" +
                     job_state_name(state_) + "' to '" + job_state_name(state) + "'");
  }
  if (tally_ != nullptr) {
    --tally_->in_state[static_cast<size_t>(state_)];
    ++tally_->in_state[static_cast<size_t>(state)];
  }
  // Somebody may leave for it; or admission may be open again, at a move's end as the pool notes.
  const bool held_no_more = state_ == JobState::held && state != JobState::moving;
  if (state == JobState::held || held_no_more) note(Changed::held);
  if (state_ == JobState::evicting) note(Changed::jobs);  // who counted on it counts on others
  state_ = state;
}

}  // namespace laneway::lanes
