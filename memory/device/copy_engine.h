// CopyEngine: the link between the CPU's memory and a host device's pool. Each direction carries
// one copy at a time, at a settable bandwidth, so that transfers take as long as on a real link and
// compete as they do there. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/time.h"

namespace laneway::memory {

enum class CopyDirection : uint8_t { to_device, to_host };

class CopyEngine {
 public:
  // Blocks the caller for the given time.
  using Sleep = std::function<void(Duration)>;

  // Uses the machine's clock and a real sleep.
  CopyEngine();
  // `clock` must outlive the engine. Tests give a ManualClock and a sleep that advances it.
  CopyEngine(const Clock& clock, Sleep sleep);

  // Bytes per second in each direction; 0: as fast as the machine copies.
  void set_bandwidth(int64_t bytes_per_s) { bandwidth_.store(bytes_per_s); }

  // Copies, and returns when the link would have carried the bytes.
  void copy(CopyDirection direction, void* to, const void* from, Bytes bytes);

 private:
  const Clock& clock_;
  const Sleep sleep_;
  std::atomic<int64_t> bandwidth_{0};
  std::array<Mutex, 2> links_;
};

}  // namespace laneway::memory
