#include "memory/device/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace laneway::memory {
namespace {

Error no_size(Bytes size) {
  return Error{ErrorCode::invalid_argument,
               "host memory of " + format_bytes(size) + ": the size must be at least one byte"};
}

}  // namespace

class HostMemory::PoolBlock final : public MemoryBlock {
 public:
  PoolBlock(HostMemory& owner, SharedMemory memory) : owner_(owner), memory_(std::move(memory)) {
    owner_.pool_blocks_.add(memory_.data(), memory_.size());
  }
  ~PoolBlock() override { owner_.pool_blocks_.remove(memory_.data()); }
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

class HostMemory::CallersBlock final : public MemoryBlock {
 public:
  CallersBlock(std::byte* data, Bytes size) : data_(data), size_(size) {}

  std::byte* data() const override { return data_; }
  Bytes size() const override { return size_; }
  int descriptor() const override { return -1; }

 private:
  std::byte* const data_;
  const Bytes size_;
};

Result<std::unique_ptr<MemoryBlock>> HostMemory::allocate_pool(Bytes size) {
  Result<SharedMemory> made = SharedMemory::create("laneway-pool", size);
  if (!made.ok()) return made.error();
  // The pool is its service's. A child of the user's process has none of the threads that use it,
  // and whatever it wrote would be read by the jobs of its parent.
  if (Status kept = made.value().keep_from_children(); !kept) return kept.error();
  return pool_block(std::move(made).value());
}

Result<std::unique_ptr<MemoryBlock>> HostMemory::attach_pool(int descriptor, Bytes size) {
  Result<SharedMemory> attached = SharedMemory::attach(descriptor, size);
  if (!attached) return attached.error();
  return pool_block(std::move(attached).value());
}

std::unique_ptr<MemoryBlock> HostMemory::pool_block(SharedMemory memory) {
  return std::make_unique<PoolBlock>(*this, std::move(memory));
}

Result<std::unique_ptr<MemoryBlock>> HostMemory::pin(std::byte* memory, Bytes size) {
  if (size <= Bytes(0)) return no_size(size);
  return std::unique_ptr<MemoryBlock>(std::make_unique<CallersBlock>(memory, size));
}

Result<std::unique_ptr<MemoryBlock>> HostMemory::allocate_host(Bytes size) {
  if (size <= Bytes(0)) return no_size(size);
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

}  // namespace laneway::memory
