#include "service/supervisor/memory_pressure.h"

#include <fstream>

namespace laneway::service {
namespace {

// A process that the kernel kills needs some time to give back what it had.
constexpr Duration kLately = seconds(10);

std::optional<uint64_t> kills_in(const std::string& file) {
  std::ifstream lines(file);
  std::string name;
  uint64_t count = 0;
  while (lines >> name >> count) {
    if (name == "oom_kill") return count;
  }
  return std::nullopt;
}

}  // namespace

void MemoryPressure::look(TimePoint now) {
  const std::optional<uint64_t> count = kills_in(file_);
  if (count_ && count && *count > *count_) grew_at_ = now;
  if (count) count_ = count;
}

bool MemoryPressure::killed_lately(TimePoint now) const {
  return grew_at_ && now - *grew_at_ <= kLately;
}

}  // namespace laneway::service
