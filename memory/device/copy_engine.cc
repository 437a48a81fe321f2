#include "memory/device/copy_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "memory/device/streaming_copy.h"

namespace laneway::memory {
namespace {

// What a small copy may have to wait for another one.
constexpr Duration kSlice = microseconds(250);
// A thread that is later than this was stopped, or the machine was: the link does not make up for
// it.
constexpr Duration kLate = milliseconds(100);
// A link that was free for longer than this starts anew: lateness is for copies that follow at
// once.
constexpr Duration kFollows = milliseconds(1);
// A sleep this short would end several times too late (a thread's timer slack alone is 50 us): the
// thread spins instead, at most for this long.
constexpr Duration kSpin = microseconds(20);

// Of as many bytes the processor's caches keep nothing that is read before it is pushed out again:
// images, not inputs.
constexpr size_t kStreamed = size_t{512} << 10;

const Clock& machine_clock() {
  static const SteadyClock clock;
  return clock;
}

void rest(Duration time) {
  if (time > kSpin) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(time.ns()));
    return;
  }
  const TimePoint end = machine_clock().now() + time;
  while (machine_clock().now() < end) {
  }
}

Duration time_of(size_t bytes, int64_t bandwidth) {
  return Duration(
      static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(bandwidth)));
}

}  // namespace

CopyEngine::CopyEngine() : CopyEngine(machine_clock(), rest) {}

CopyEngine::CopyEngine(const Clock& clock, Sleep sleep) : clock_(clock), sleep_(std::move(sleep)) {}

void CopyEngine::copy(CopyDirection direction, void* to, const void* from, Bytes bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  auto left = static_cast<size_t>(bytes.count());
  if (left == 0) return;
  Link& link = links_[static_cast<size_t>(direction)];
  const bool streamed = left >= kStreamed;
  bool entered = false;
  while (left > 0) {
    const int64_t bandwidth = bandwidth_.load();
    size_t slice = left;
    if (bandwidth > 0) {
      if (!std::exchange(entered, true)) enter(link);
      const auto most = static_cast<size_t>(kSlice.seconds() * static_cast<double>(bandwidth));
      slice = std::clamp<size_t>(most, 1, left);
      const TimePoint end = reserve(link, slice, bandwidth);
      for (TimePoint now = clock_.now(); now < end; now = clock_.now()) sleep_(end - now);
    }
    streamed ? streaming_copy(target, source, slice)
             : static_cast<void>(std::memcpy(target, source, slice));
    target += slice;
    source += slice;
    left -= slice;
  }
  if (entered) leave(link);
}

void CopyEngine::enter(Link& link) {
  const MutexLock lock(link.mutex);
  if (link.copies++ > 0) return;
  // The link was free for as long as nobody copied.
  const TimePoint now = clock_.now();
  const Duration idle = now - std::min(link.returned, now);
  link.busy_until = idle > kFollows ? now : link.busy_until + idle;
}

void CopyEngine::leave(Link& link) {
  const MutexLock lock(link.mutex);
  --link.copies;
  link.returned = clock_.now();
}

TimePoint CopyEngine::reserve(Link& link, size_t bytes, int64_t bandwidth) {
  const MutexLock lock(link.mutex);
  const TimePoint now = clock_.now();
  link.busy_until = std::max(link.busy_until, now + kLate * -1) + time_of(bytes, bandwidth);
  return link.busy_until;
}

}  // namespace laneway::memory
