// Clock: where time comes from, injected so that the core stays deterministic and tests crank a
// ManualClock instead of sleeping. SteadyClock is thread-safe; ManualClock is too.
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

// Stands still until told to move. Never goes back.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(ns_.load(std::memory_order_acquire)); }
  void advance(Duration by) { ns_.fetch_add(by.ns(), std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> ns_{0};
};

}  // namespace laneway
