// RemoteFrees: frees of a lane's memory by threads that are not the lane's own, until its own takes
// them. Thread-safe.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace laneway::memory {

class RemoteFrees {
 public:
  void add(void* memory) {
    const MutexLock lock(mutex_);
    frees_.push_back(memory);
    pending_.store(true, std::memory_order_release);
  }
  // Whether any were added, for a look at every allocation: one that is being added may be missed.
  bool pending() const { return pending_.load(std::memory_order_relaxed); }
  // All that were added since the last time.
  std::vector<void*> take() {
    const MutexLock lock(mutex_);
    pending_.store(false, std::memory_order_relaxed);
    return std::exchange(frees_, {});
  }

 private:
  std::atomic<bool> pending_{false};
  Mutex mutex_;
  std::vector<void*> frees_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::memory
