// ThreadCount: sets how many threads torch's operators use on this thread, for a scope. The counts
// of OpenMP and MKL decide; they belong to the calling thread. at::set_num_threads sets them too,
// but also the initial count of every thread that has not used torch yet, the user's new threads
// included: their eager results would depend on the work of a lane. So both counts are set
// directly, and jobs in other lanes and eager work keep their own.
#pragma once

#include <cstdint>

namespace laneway::adaptor {

class ThreadCount {
 public:
  explicit ThreadCount(int32_t wanted);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const int32_t wanted_;
  const int32_t before_;  // this thread's former count
  int32_t mkl_before_ = 0;
};

// Ends the OpenMP threads that the calling thread keeps for its next parallel region; that region
// then starts new ones (some 50 us). OpenMP waits at barriers without sleeping only while the
// threads of the process do not outnumber the processors, and kept threads count: two threads of a
// process that compute in turn, each with a team of its own, make every barrier of both a sleep.
// Does nothing on a thread that keeps none, within a parallel region, and in the child of a fork()
// on the thread that forked: its team does not exist there. Requires: the caller holds no TorchUse.
void end_thread_team();

}  // namespace laneway::adaptor
