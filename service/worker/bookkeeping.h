// Bookkeeping: the capability that a thread has while it holds its worker's mutex. The records that
// the mutex guards lie in several classes (Worker, WorkerLane, WorkerJob, Link); clang's analysis
// cannot know that all of them mean the same mutex, so they name this capability instead.
#pragma once

#include "base/mutex.h"

namespace laneway::service {

class LW_THREAD_ANNOTATION(capability("bookkeeping")) Bookkeeping {};
inline constexpr Bookkeeping kBookkeeping;

// Holds the worker's mutex for a scope.
class LW_THREAD_ANNOTATION(scoped_lockable) BookkeepingLock {
 public:
  // Requires: `mutex` is a worker's.
  explicit BookkeepingLock(Mutex& mutex)
      LW_THREAD_ANNOTATION(acquire_capability(mutex, kBookkeeping))
      : lock_(mutex) {}
  // NOLINTNEXTLINE(modernize-use-equals-default): it is what the analysis is told of
  ~BookkeepingLock() LW_THREAD_ANNOTATION(release_capability()) {}
  BookkeepingLock(const BookkeepingLock&) = delete;
  BookkeepingLock& operator=(const BookkeepingLock&) = delete;

 private:
  const MutexLock lock_;
};

}  // namespace laneway::service
