// ThreadCount: how many threads torch's operators use on this thread, for a scope. The count that
// decides (OpenMP's, and MKL's own) belongs to the calling thread. at::set_num_threads sets it too,
// but also the count with which every thread begins that has not used torch yet, the user's new
// threads included: their eager results would depend on what a lane runs. So the two are set
// directly, and what jobs in other lanes, or eager work, use is their own.
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
  const int32_t before_;  // of this thread
  int32_t mkl_before_ = 0;
};

// Ends the OpenMP threads that the calling thread keeps for its next parallel region, which then
// starts others (some 50 us). OpenMP waits at barriers without sleeping only while the threads of
// the process do not outnumber the processors, and kept threads count: two threads of a process
// that compute in turn, each with a team of its own, make every barrier of both a sleep. Nothing
// happens on a thread that keeps none, within a parallel region, and in the child of a fork() on
// the thread that forked, whose team is not there. The caller must stand in no TorchUse.
void end_thread_team();

}  // namespace laneway::adaptor
