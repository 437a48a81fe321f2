// Clock: the source of time. It is injected, so that the core stays deterministic and tests advance
// a ManualClock instead of sleeping. SteadyClock and ManualClock are thread-safe.
#pragma once

#include <atomic>

#include "base/time.h"

namespace laneway {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override;
};

// A clock that moves only in advance(). Requires: `by` is not negative.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(ns_.load(std::memory_order_acquire)); }
  void advance(Duration by) { ns_.fetch_add(by.ns(), std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> ns_{0};
};

}  // namespace laneway
