#include "memory/device/block_ranges.h"

#include <iterator>
#include <string>

#include "base/check.h"

namespace laneway::memory {

BlockRanges::~BlockRanges() {
  const MutexLock lock(mutex_);
  LW_CHECK(ranges_.empty(), "a device is gone before its pool memory");
}

void BlockRanges::add(const void* base, Bytes size) {
  const MutexLock lock(mutex_);
  ranges_.emplace(reinterpret_cast<uintptr_t>(base), size.count());
}

void BlockRanges::remove(const void* base) {
  const MutexLock lock(mutex_);
  ranges_.erase(reinterpret_cast<uintptr_t>(base));
}

Status BlockRanges::require(const char* call, const void* address, Bytes bytes) const {
  const auto start = reinterpret_cast<uintptr_t>(address);
  {
    const MutexLock lock(mutex_);
    const auto after = ranges_.upper_bound(start);
    if (after != ranges_.begin() && bytes >= Bytes(0)) {
      const auto [base, size] = *std::prev(after);
      const auto into = static_cast<int64_t>(start - base);
      if (into <= size && bytes.count() <= size - into) return {};
    }
  }
  return Error{ErrorCode::invalid_argument, std::string(call) + ": " +
                                                std::to_string(bytes.count()) +
                                                " bytes there are not inside the device's memory"};
}

}  // namespace laneway::memory
