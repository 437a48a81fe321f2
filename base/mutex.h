// Mutex, MutexLock and CondVar: the standard ones with clang's thread-safety annotations, so that
// the `clang` preset proves which lock guards which member. Used at the edge only; the core has no
// locks. A caller must wait in a loop that tests its condition.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/time.h"

#if defined(__clang__)
#define LW_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define LW_THREAD_ANNOTATION(x)
#endif

#define LW_GUARDED_BY(x) LW_THREAD_ANNOTATION(guarded_by(x))
#define LW_REQUIRES(...) LW_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define LW_EXCLUDES(...) LW_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// For functions that the analysis cannot follow, such as handlers of fork(): one function locks,
// another unlocks.
#define LW_NO_THREAD_SAFETY_ANALYSIS LW_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace laneway {

class LW_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() LW_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  bool try_lock() LW_THREAD_ANNOTATION(try_acquire_capability(true)) { return mutex_.try_lock(); }
  void unlock() LW_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds the mutex for a scope.
class LW_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LW_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() LW_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Requires: the caller holds `mutex`, and holds it again on return. Wake-ups may be spurious.
  void wait(Mutex& mutex) LW_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // The same, for at most `timeout`. Returns false when that time has passed.
  bool wait_for(Mutex& mutex, Duration timeout) LW_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const auto status = condition_.wait_for(lock, std::chrono::nanoseconds(timeout.ns()));
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace laneway
