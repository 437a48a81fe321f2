// Bookkeeping: the capability that a thread has while it holds its worker's mutex. The records that
// the mutex guards lie in several classes (Worker and its parts, WorkerLane, WorkerJob, Link);
// clang's analysis cannot know that all of them mean the same mutex, so they name this capability
// instead.
#pragma once

#include "base/mutex.h"
#include "base/time.h"

namespace laneway::service {

class LW_THREAD_ANNOTATION(capability("bookkeeping")) Bookkeeping {};
inline constexpr Bookkeeping kBookkeeping;

// A worker's mutex: whoever holds it has kBookkeeping. The analysis is switched off here, and only
// here, because it cannot know that the mutex and the capability are one.
class BookkeepingMutex {
 public:
  void lock() LW_THREAD_ANNOTATION(acquire_capability(kBookkeeping)) LW_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.lock();
  }
  void unlock()
      LW_THREAD_ANNOTATION(release_capability(kBookkeeping)) LW_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.unlock();
  }
  // As CondVar's: the mutex is held again on return; wake-ups may be spurious.
  void wait(CondVar& changed) LW_REQUIRES(kBookkeeping) LW_NO_THREAD_SAFETY_ANALYSIS {
    changed.wait(mutex_);
  }
  // False when `timeout` passed.
  bool wait_for(CondVar& changed, Duration timeout)
      LW_REQUIRES(kBookkeeping) LW_NO_THREAD_SAFETY_ANALYSIS {
    return changed.wait_for(mutex_, timeout);
  }

 private:
  Mutex mutex_;
};

// Holds a worker's mutex for a scope.
class LW_THREAD_ANNOTATION(scoped_lockable) BookkeepingLock {
 public:
  explicit BookkeepingLock(BookkeepingMutex& mutex)
      LW_THREAD_ANNOTATION(acquire_capability(kBookkeeping))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~BookkeepingLock() LW_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  BookkeepingLock(const BookkeepingLock&) = delete;
  BookkeepingLock& operator=(const BookkeepingLock&) = delete;

 private:
  BookkeepingMutex& mutex_;
};

}  // namespace laneway::service
