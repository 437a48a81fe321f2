// BlockRanges: the address ranges of a device's pool blocks, and the check that the range of a copy
// or fill lies inside one of them. Thread-safe; must outlive the blocks.
#pragma once

#include <cstdint>
#include <map>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/result.h"

namespace laneway::memory {

class BlockRanges {
 public:
  BlockRanges() = default;
  BlockRanges(const BlockRanges&) = delete;
  BlockRanges& operator=(const BlockRanges&) = delete;
  // Requires: every range was removed.
  ~BlockRanges();

  void add(const void* base, Bytes size);
  void remove(const void* base);

  // Error invalid_argument, naming the call and the range, unless [address, address + bytes) lies
  // in one block.
  Status require(const char* call, const void* address, Bytes bytes) const;

 private:
  mutable Mutex mutex_;
  std::map<uintptr_t, int64_t> ranges_ LW_GUARDED_BY(mutex_);  // base -> size
};

}  // namespace laneway::memory
