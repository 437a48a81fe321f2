// ControlWord: the one word that an executor tests before each node. Bits are set by other threads
// (the core's side, a loader) and say that there is something to wait for or to
// stop for; a zero word costs a relaxed load and a branch. Thread-safe. Borrowed by the executor,
// owned by whoever owns the lane.
#pragma once

#include <atomic>
#include <cstdint>

namespace laneway::lanes {

// Bits of the word. The first two are acted on by the executor itself, the others by its hooks.
namespace control {
inline constexpr uint32_t kAbandon = 1u << 0;  // give this iteration up if it has not committed
inline constexpr uint32_t kCancel = 1u << 1;   // the job is over: as kAbandon, and stays set
inline constexpr uint32_t kPause = 1u << 2;    // hold between nodes until it is cleared
inline constexpr uint32_t kGroup = 1u << 3;    // bytes that a coming node needs are not there yet
inline constexpr uint32_t kStop = kAbandon | kCancel;
inline constexpr uint32_t kWait = kPause | kGroup;
}  // namespace control

class ControlWord {
 public:
  // Whether any bit is set, at the cost of a plain load: nothing is ordered by it.
  bool any() const { return word_.load(std::memory_order_relaxed) != 0; }
  // The bits, and with them all that their setters wrote before.
  uint32_t bits() const { return word_.load(std::memory_order_acquire); }

  // Wakes whoever waits in wait_change.
  void set(uint32_t bits) {
    word_.fetch_or(bits, std::memory_order_release);
    word_.notify_all();
  }
  void clear(uint32_t bits) {
    word_.fetch_and(~bits, std::memory_order_release);
    word_.notify_all();
  }
  // Blocks until the bits are not `seen` any more.
  void wait_change(uint32_t seen) const { word_.wait(seen, std::memory_order_acquire); }

 private:
  // A cache line of its own: the executor reads it all the time.
  alignas(64) std::atomic<uint32_t> word_{0};
};

}  // namespace laneway::lanes
