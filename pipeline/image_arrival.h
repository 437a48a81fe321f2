// ImageArrival: how much of a job's image, from its beginning on, is in the pool, while it comes
// back and its iterations run behind the copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "memory/device/device.h"

namespace laneway::pipeline {

// One thread says what has come; any thread may wait.
class ImageArrival {
 public:
  // From now on nothing is there, until it is said.
  void begin() { arrived_.store(0, std::memory_order_release); }
  // So much is there, for what waits for `there` (null: for everybody).
  void advance(Bytes arrived, std::shared_ptr<memory::Event> there = nullptr) LW_EXCLUDES(mutex_);
  // Every byte is there and is the right one, and the journal says so; or it never will be.
  void finish(bool whole) LW_EXCLUDES(mutex_);
  // What those bytes are to be waited for by, and how many there are behind it; no event when they
  // are there. Requires: has(bytes).
  struct Coming {
    Bytes bytes;
    std::shared_ptr<memory::Event> there;
  };
  Coming coming(Bytes bytes) const LW_EXCLUDES(mutex_);

  bool is_whole() const { return arrived_.load(std::memory_order_acquire) == kWhole; }
  bool is_lost() const { return arrived_.load(std::memory_order_acquire) == kLost; }
  // What has come, or is on its way; meaningless when the image is whole or lost.
  Bytes arrived() const { return Bytes(arrived_.load(std::memory_order_acquire)); }
  bool has(Bytes bytes) const { return arrived_.load(std::memory_order_acquire) >= bytes.count(); }
  // Blocks until so many bytes are there, or the whole is: false when they never will be.
  bool wait(Bytes bytes) const { return wait_until(bytes.count()); }
  bool wait_whole() const { return wait_until(kWhole); }

 private:
  static constexpr int64_t kWhole = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kLost = -1;

  void set(int64_t arrived) {
    arrived_.store(arrived, std::memory_order_release);
    arrived_.notify_all();
  }
  bool wait_until(int64_t wanted) const {
    int64_t arrived = arrived_.load(std::memory_order_acquire);
    while (arrived >= 0 && arrived < wanted) {
      arrived_.wait(arrived, std::memory_order_acquire);
      arrived = arrived_.load(std::memory_order_acquire);
    }
    return arrived >= 0;
  }

  std::atomic<int64_t> arrived_{kWhole};
  mutable Mutex mutex_;
  std::vector<Coming> coming_ LW_GUARDED_BY(mutex_);  // ascending
};

}  // namespace laneway::pipeline
