// CopyEngine: the link between the CPU's memory and the pool of a host device, for everybody who
// copies. Each direction carries so many bytes per second, as a real link does. Copies go in
// slices, and copies that are under way together take turns, so a small one waits for one slice of
// each of the others. A slice's bytes are there when the link has carried them, not before.
// Thread-safe.
//
// The link's time goes on from copy to copy: a thread that wakes late from its sleep does not make
// the link slower, because what follows at once is carried from when the link was free. Time in
// which nobody copied is lost. Without a bandwidth a copy is one pass, with no lock held.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
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
  // Blocks the caller for about the given time.
  using Sleep = std::function<void(Duration)>;

  // Uses the machine's clock and a real sleep; the thread spins through rests of a few
  // microseconds.
  CopyEngine();
  // `clock` must outlive the engine. Tests give a ManualClock and a sleep that advances it.
  CopyEngine(const Clock& clock, Sleep sleep);

  // Bytes per second in each direction; 0: as fast as the machine copies, and nobody waits for
  // another. Holds for slices that begin later.
  void set_bandwidth(int64_t bytes_per_s) { bandwidth_.store(bytes_per_s); }

  // Copies, and returns when the link has carried the bytes.
  void copy(CopyDirection direction, void* to, const void* from, Bytes bytes);

 private:
  struct Link {
    Mutex mutex;
    // Until then the link carries what was begun.
    TimePoint busy_until LW_GUARDED_BY(mutex);
    // Copies under way, and when the last of them returned.
    uint32_t copies LW_GUARDED_BY(mutex) = 0;
    TimePoint returned LW_GUARDED_BY(mutex);
  };

  void enter(Link& link);
  void leave(Link& link);
  // When the link has carried `bytes` more bytes.
  TimePoint reserve(Link& link, size_t bytes, int64_t bandwidth);

  const Clock& clock_;
  const Sleep sleep_;
  std::atomic<int64_t> bandwidth_{0};
  std::array<Link, 2> links_;
};

}  // namespace laneway::memory
