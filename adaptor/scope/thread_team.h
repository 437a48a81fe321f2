// The team of a thread: the OpenMP threads that it keeps for its next parallel region. OpenMP waits
// at barriers without sleeping only while the threads of the process do not outnumber the
// processors, and kept threads count: two threads of a process that compute in turn, each with a
// team of its own, make every barrier of both a sleep.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace laneway::adaptor {

// Brings the calling thread's team, which has so many threads with the caller itself, onto
// processors of their own, as far as there are as many that they may use; starts it where there is
// none. Does nothing if the team was used within the last millisecond: it waits without sleeping.
//
// A kernel that wakes or starts a thread may put it on the processor of the one that does, although
// others are idle (virtual machines do: their idle processors count as taken away). Both then spin
// for each other at every barrier until the kernel looks again: an iteration of 3.3 ms takes 13.8
// after a pause of 50 ms, in plain torch too. To gather takes some 0.1 ms; 4 ms where the team is
// new and the kernel did so, because OpenMP itself waits for it. Where OpenMP is not GNU's, nothing
// is done. Requires: the caller holds no TorchUse.
void gather_thread_team(TimePoint now, uint32_t threads);
// The calling thread's team may just have computed.
void thread_team_used(TimePoint now);

// Ends it; the next parallel region then starts another one. Does nothing on a thread that keeps
// none, within a parallel region, and in the child of a fork() on the thread that forked: its team
// does not exist there. Requires: the caller holds no TorchUse.
void end_thread_team();

}  // namespace laneway::adaptor
