#include "memory/device/copy_engine.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace laneway::memory {
namespace {

const Clock& machine_clock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace

CopyEngine::CopyEngine()
    : CopyEngine(machine_clock(), [](Duration time) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(time.ns()));
      }) {}

CopyEngine::CopyEngine(const Clock& clock, Sleep sleep) : clock_(clock), sleep_(std::move(sleep)) {}

void CopyEngine::copy(CopyDirection direction, void* to, const void* from, Bytes bytes) {
  const MutexLock lock(links_[static_cast<size_t>(direction)]);
  const TimePoint start = clock_.now();
  std::memcpy(to, from, static_cast<size_t>(bytes.count()));
  const int64_t bandwidth = bandwidth_.load();
  if (bandwidth <= 0) return;
  const double took_s = static_cast<double>(bytes.count()) / static_cast<double>(bandwidth);
  const TimePoint end = start + Duration(static_cast<int64_t>(took_s * 1e9));
  for (TimePoint now = clock_.now(); now < end; now = clock_.now()) sleep_(end - now);
}

}  // namespace laneway::memory
