// The team of a thread: the OpenMP threads that it keeps for its next parallel region. OpenMP waits
// at barriers without sleeping only while the threads of the process do not outnumber the
// processors, and kept threads count: two threads of a process that compute in turn, each with a
// team of its own, make every barrier of both a sleep.
#pragma once

#include <cstdint>

namespace laneway::adaptor {

// Starts the calling thread's team, which has so many threads with the caller itself, each on a
// processor of its own if there are as many that they may use. OpenMP would start it with the next
// parallel region, but there the kernel may put a new thread on the processor of the one that
// starts it, and both then spin for each other: for 10 to 40 ms on two idle processors, until the
// kernel looks again. Takes some 50 us, or 3 ms when the kernel did so. Where OpenMP is not GNU's,
// nothing is done. Requires: the caller holds no TorchUse.
void start_thread_team(uint32_t threads);

// Ends it; the next parallel region then starts another one. Does nothing on a thread that keeps
// none, within a parallel region, and in the child of a fork() on the thread that forked: its team
// does not exist there. Requires: the caller holds no TorchUse.
void end_thread_team();

}  // namespace laneway::adaptor
