// ControlWord: the word that an executor tests before each node. Other threads set its bits when
// the executor must pause or stop; a zero word costs a relaxed load and a branch. Thread-safe. The
// owner of the lane owns it; the executor borrows it.
#pragma once

#include <atomic>
#include <cstdint>

namespace laneway::lanes {

// Bits of the word. The executor itself acts on the first two, its hooks act on the last one.
namespace control {
inline constexpr uint32_t kAbandon = 1u << 0;  // abandon this iteration if it has not committed
inline constexpr uint32_t kCancel = 1u << 1;   // the job is over: as kAbandon, and stays set
inline constexpr uint32_t kPause = 1u << 2;    // hold between nodes, before the commit phase
inline constexpr uint32_t kStop = kAbandon | kCancel;
}  // namespace control

class ControlWord {
 public:
  // Whether any bit is set, at the cost of a plain load: nothing is ordered by it.
  bool any() const { return word_.load(std::memory_order_relaxed) != 0; }
  // The bits. All that their setters wrote before is visible afterwards.
  uint32_t bits() const { return word_.load(std::memory_order_acquire); }

  void set(uint32_t bits) { word_.fetch_or(bits, std::memory_order_release); }
  void clear(uint32_t bits) { word_.fetch_and(~bits, std::memory_order_release); }

 private:
  // A cache line of its own: the executor reads it all the time.
  alignas(64) std::atomic<uint32_t> word_{0};
};

}  // namespace laneway::lanes
