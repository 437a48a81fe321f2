#include "memory/device/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "base/check.h"
#include "memory/shared_memory.h"

namespace laneway::memory {

class HostMemory::PoolBlock final : public MemoryBlock {
 public:
  PoolBlock(HostMemory& owner, SharedMemory memory) : owner_(owner), memory_(std::move(memory)) {}
  ~PoolBlock() override { owner_.forget(reinterpret_cast<uintptr_t>(memory_.data())); }
  PoolBlock(const PoolBlock&) = delete;
  PoolBlock& operator=(const PoolBlock&) = delete;

  std::byte* data() const override { return memory_.data(); }
  Bytes size() const override { return memory_.size(); }
  int descriptor() const override { return memory_.descriptor(); }

 private:
  HostMemory& owner_;
  SharedMemory memory_;
};

class HostMemory::HostBlock final : public MemoryBlock {
 public:
  HostBlock(std::byte* data, Bytes size) : data_(data), size_(size) {}
  ~HostBlock() override { ::munmap(data_, static_cast<size_t>(size_.count())); }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  std::byte* data() const override { return data_; }
  Bytes size() const override { return size_; }
  int descriptor() const override { return -1; }

 private:
  std::byte* data_;
  Bytes size_;
};

HostMemory::~HostMemory() {
  const MutexLock lock(mutex_);
  LW_CHECK(pool_blocks_.empty(), "a device is gone before its pool memory");
}

Result<std::unique_ptr<MemoryBlock>> HostMemory::allocate_pool(Bytes size) {
  Result<SharedMemory> made = SharedMemory::create("laneway-pool", size);
  if (!made.ok()) return made.error();
  // The pool is its service's. A child of the user's process has none of the threads that use it,
  // and whatever it wrote would be read by the jobs of its parent.
  if (Status kept = made.value().keep_from_children(); !kept) return kept.error();
  const auto base = reinterpret_cast<uintptr_t>(made.value().data());
  {
    const MutexLock lock(mutex_);
    pool_blocks_.emplace(base, size.count());
  }
  return std::unique_ptr<MemoryBlock>(std::make_unique<PoolBlock>(*this, std::move(made).value()));
}

Result<std::unique_ptr<MemoryBlock>> HostMemory::allocate_host(Bytes size) {
  if (size <= Bytes(0)) {
    return Error{ErrorCode::invalid_argument,
                 "host memory of " + format_bytes(size) + ": the size must be at least one byte"};
  }
  void* data = ::mmap(nullptr, static_cast<size_t>(size.count()), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Error{ErrorCode::out_of_memory, "host memory of " + format_bytes(size) +
                                               " cannot be had: " + std::strerror(errno) +
                                               "; ask for less, or free memory first"};
  }
  return std::unique_ptr<MemoryBlock>(
      std::make_unique<HostBlock>(static_cast<std::byte*>(data), size));
}

Status HostMemory::require_pool(const char* call, const void* address, Bytes bytes) const {
  const auto start = reinterpret_cast<uintptr_t>(address);
  {
    const MutexLock lock(mutex_);
    const auto after = pool_blocks_.upper_bound(start);
    if (after != pool_blocks_.begin() && bytes >= Bytes(0)) {
      const auto [base, size] = *std::prev(after);
      const auto into = static_cast<int64_t>(start - base);
      if (into <= size && bytes.count() <= size - into) return {};
    }
  }
  return Error{ErrorCode::invalid_argument, std::string(call) + ": " +
                                                std::to_string(bytes.count()) +
                                                " bytes there are not inside the device's memory"};
}

void HostMemory::forget(uintptr_t base) {
  const MutexLock lock(mutex_);
  pool_blocks_.erase(base);
}

}  // namespace laneway::memory
