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

}  // namespace laneway::adaptor
