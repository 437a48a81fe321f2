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

}  // namespace laneway::adaptor
