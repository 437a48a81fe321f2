// KeptMemory: device memory beside the pool that lanes and jobs use one after another: workspaces
// of cuBLAS (cuda_workspaces.h), the seed that recordings read. What is given back is kept for the
// next that asks for as many bytes, so what a service takes beside its pool is what was in use at
// one time, however many jobs come and go. It comes from CUDA: torch's allocator keeps freed memory
// for the stream of the lane, which is gone.
//
// Thread-safe. Must outlive its blocks; frees all when it is destroyed.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace laneway::adaptor {

class KeptMemory {
 public:
  KeptMemory() = default;
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  // Movable owner; the destructor gives the memory back. Requires: work that uses it is complete
  // then.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept { *this = std::move(other); }
    Block& operator=(Block&& other) noexcept;
    ~Block() { give_back(); }

    void* data() const { return data_; }  // null: none
    size_t bytes() const { return bytes_; }

   private:
    friend class KeptMemory;
    Block(KeptMemory& owner, void* data, size_t bytes)
        : owner_(&owner), data_(data), bytes_(bytes) {}
    void give_back();

    KeptMemory* owner_ = nullptr;
    void* data_ = nullptr;
    size_t bytes_ = 0;
  };

  // `bytes` of memory with unknown contents, aligned as cudaMalloc does. Throws
  // c10::OutOfMemoryError when there is none, c10::Error when CUDA fails. Requires: the device is
  // torch's current one; bytes is not 0.
  Block take(size_t bytes) LW_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<std::pair<size_t, void*>> free_ LW_GUARDED_BY(mutex_);  // bytes, memory
};

}  // namespace laneway::adaptor
