// PinnedMemory: ranges of the CPU's memory that the device may reach: allocated by the fake, or
// registered with it. Guarded by the Gpu's mutex.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>

namespace laneway::fake_cuda {

class PinnedMemory {
 public:
  CUresult allocate(size_t size, unsigned flags, void** address);
  CUresult free(void* address);
  CUresult add(void* address, size_t size, unsigned flags);
  CUresult remove(void* address);

  // Whether all of the range is pinned.
  bool holds(const void* address, size_t size) const;
  // The range that holds the address.
  bool range_of(const void* address, void** base, size_t* size, unsigned* flags) const;
  size_t count() const { return ranges_.size(); }

 private:
  struct Range {
    size_t size;
    unsigned flags;
    bool ours;
  };

  bool overlaps(uintptr_t begin, size_t size) const;

  std::map<uintptr_t, Range> ranges_;
};

}  // namespace laneway::fake_cuda
