// Teams: the OpenMP threads that a thread keeps between iterations of graphs that were captured
// with more than one thread. Two threads of one process must not both keep a team for long, because
// OpenMP then makes every barrier of both a sleep (adaptor/scope/thread_team.h). A team can be
// ended by its own thread alone, hence the rules:
//
// - A synchronous iteration runs on the caller's thread where it may (Worker::try_run): it uses the
//   team that the caller's eager work uses. A thread that has forked may not: in the child, the
//   threads of its team are missing, and a parallel region would wait for them for ever.
// - A lane's thread that has nothing to run ends its team (LaneWait::rest): while another lane's
//   work computes with one (lane_teams.h) at once if its turn is over, else very soon; else soon in
//   a process that it shares with eager work, and never in the worker's own.
// - A thread that leaves an iteration to a lane's thread ends its own team (end_callers_team).
#pragma once

#include "base/clock.h"
#include "base/time.h"

namespace laneway::service {

// How long a lane's thread keeps a team without using it while its turn is open and another lane
// computes with one; and in a process that it shares with eager work. Starting another one costs 50
// us to 4 ms, and a client that waits for each answer takes some 100 us.
inline constexpr Duration kTeamRestBeside = microseconds(200);
inline constexpr Duration kTeamRestShared = milliseconds(1);
// Graphs of which an iteration was shorter have no team gathered (adaptor/scope/thread_team.h):
// they may be of small operators, which use one thread.
inline constexpr Duration kTeamWorthGathering = milliseconds(1);

// Ends the team of the calling thread, at most once in 2 ms: a thread that computes in between
// starts another one each time.
void end_callers_team(const Clock& clock);

// Whether the calling thread may itself run an iteration with more than one thread.
bool caller_can_have_team();

}  // namespace laneway::service
