// AdaptiveSpin: how one waiter for another process begins a wait. Where a core is free and it has
// paid off lately, the waiter spins: it looks at the shared memory again and again for a short
// time, and sleeps only then. An answer that comes meanwhile costs neither side a system call nor a
// wake-up. Everywhere else the waiter sleeps at once.
//
// Whether a spin pays off is kept as credit. What came during a spin, or so soon after the waiter
// went to sleep that a spin would have met it, earns one; a spin that met nothing costs some, and
// each such spin in a row twice as much. So a waiter whose answers take long, or come at random
// times, spins once in some sixty promising waits at most, and a waiter for which nothing comes
// does not spin at all: it sleeps.
//
// Cores are short, and the waiter does not spin, when this process and the other one together may
// not run on as many as the threads need that it waits for, and all of this process that spin. They
// are also short when a spinning thread finds that it did not run for a while: all credit is lost
// then.
//
// One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/time.h"

namespace laneway::service {

// The cores that this process may run on, as bits; cores from 64 on are counted as core % 64.
uint64_t usable_cores();

// For whom a waiter waits.
struct AwaitedThreads {
  uint32_t threads = 1;  // that must run for what is waited for to come
  uint64_t cores = 0;    // that their process may run on, as bits; 0: as this one
};

class AdaptiveSpin {
 public:
  // A wake-up across cores takes some 10 us, and 30 us and more where a halted virtual core has to
  // be scheduled first. An answer whose giver has to be woken comes within this time.
  static constexpr Duration kLongestSpin = microseconds(100);
  // With the time that waking up takes; a spin may have met what came within this.
  static constexpr Duration kPromisingSleep = microseconds(150);
  // Two looks are further apart only when the thread was taken off its core.
  static constexpr Duration kOffCore = microseconds(25);
  static constexpr int32_t kMostCredit = 16;
  static constexpr int32_t kLeastCost = 4;
  static constexpr int32_t kMostCost = 64;

  // `cores` answers which cores this process may run on; it is asked now and then.
  explicit AdaptiveSpin(const Clock& clock, uint64_t (*cores)() = usable_cores)
      : clock_(clock), cores_(cores) {}
  AdaptiveSpin(const AdaptiveSpin&) = delete;
  AdaptiveSpin& operator=(const AdaptiveSpin&) = delete;

  // Begins a wait that ends at `until`. Returns whether `ready()` became true; on false the caller
  // sleeps, and calls slept() when what it waited for is there.
  template <class Ready>
  bool spin(const AwaitedThreads& others, TimePoint until, Ready ready) {
    spun_ = false;
    began_ = clock_.now();
    if (credit_ <= 0 || until <= began_ || !take_core(others)) return false;
    spun_ = true;
    const TimePoint end = std::min(until, began_ + kLongestSpin);
    TimePoint last = began_;
    bool came = false;
    bool off_core = false;
    while (!came && last < end) {
      for (int looks = 0; looks < 4 && !came; ++looks) {
        pause();
        came = ready();
      }
      const TimePoint now = clock_.now();
      off_core = off_core || now - last >= kOffCore;
      last = now;
    }
    give_core_back();
    off_core ? cores_are_short() : came ? paid_off() : missed();
    return came;
  }
  void slept();

 private:
  static void pause();
  // Whether one core more than the others need is free for this thread.
  bool take_core(const AwaitedThreads& others);
  static void give_core_back();
  void paid_off();
  void missed();
  void cores_are_short();

  const Clock& clock_;
  uint64_t (*const cores_)();
  uint64_t own_cores_ = 0;
  uint32_t spins_ = 0;
  TimePoint began_;
  bool spun_ = false;
  int32_t credit_ = 1;
  int32_t cost_ = kLeastCost;
};

}  // namespace laneway::service
