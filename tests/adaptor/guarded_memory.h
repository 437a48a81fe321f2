// Memory whose neighbours cannot be touched: behind the last byte (and before the first page) lies
// a page that is neither readable nor writable, so that an operator that reaches beyond its tensor
// stops the process at that very access. Linux.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace laneway::testing {

size_t page_bytes();

class GuardedBlock {
 public:
  // `bytes` bytes, zeroed, whose end is the end of the readable memory.
  explicit GuardedBlock(size_t bytes);
  ~GuardedBlock();
  GuardedBlock(GuardedBlock&& other) noexcept;
  GuardedBlock& operator=(GuardedBlock&&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Makes [offset, offset + bytes), whole pages, untouchable too.
  void forbid(size_t offset, size_t bytes) const;

 private:
  std::byte* mapped_;
  size_t mapped_bytes_;
  std::byte* data_;
  size_t size_;
};

// From now on every tensor that torch makes in this process has a guarded block of its own; more
// than `budget` bytes alive at once are refused with std::bad_alloc, as a full lane refuses.
void guard_torch_allocations(size_t budget);

}  // namespace laneway::testing
