// CoreShortage: what an iteration with a team of threads does on a machine that has more to do than
// it has cores. OpenMP's barriers then spin for threads that do not run, and every barrier costs a
// turn of the kernel's scheduler. They sleep instead while the threads that OpenMP manages in the
// process outnumber the processors; so an idle thread here keeps a team of its own, asleep, until
// cores are free again. The number of threads that compute stays, and with it every bit.
//
// Cores are short when both say so: the thread that computes waited for a core during much of its
// time (/proc/thread-self/schedstat), and on the machine some thread nearly always waits
// (/proc/pressure/cpu). Where the kernel shows neither, or the user has set OMP_WAIT_POLICY or
// GOMP_SPINCOUNT, nothing is done.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace laneway::adaptor {

// Judges what a thread's time went into. Of one thread; no clock, no file.
class CoreShortage {
 public:
  static constexpr Duration kLeastPeriod = milliseconds(100);
  static constexpr int64_t kThreadWaitsAbovePercent = 15;
  static constexpr int64_t kMachineWaitsAbovePercent = 50;
  static constexpr int64_t kMachineWaitsBelowPercent = 25;

  // Sums since some beginning.
  struct Sums {
    TimePoint at;
    Duration thread_waited;   // this thread was ready to run and did not
    Duration machine_waited;  // some thread was
  };

  // Whether the next look is due.
  bool due(TimePoint now) const { return !last_ || now - last_->at >= kLeastPeriod; }
  // Whether cores were short since the look before; false at the first.
  bool look(const Sums& sums);
  // The same for one that waits until cores are free again: whether they were. False at the first.
  bool look_for_end(const Sums& sums);
  // The next look is the first again.
  void forget() { last_.reset(); }

 private:
  std::optional<Sums> last_;
};

// The calling thread has ended an iteration with `threads` threads at `now`. Looks at most every
// 100 ms whether cores are short, and has OpenMP's barriers sleep then. `others_compute`: another
// thread of the process computes with a team now, so barriers sleep anyhow: what is waited for then
// says nothing about the time when it no longer does.
void watch_cores(TimePoint now, uint32_t threads, bool others_compute);

}  // namespace laneway::adaptor
