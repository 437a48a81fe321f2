#include "tests/adaptor/guarded_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace laneway::testing {
namespace {

size_t whole_pages(size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

// What torch holds of guarded blocks, by their data. Leaked on purpose: torch frees at exit.
struct Held {
  std::mutex mutex;
  std::unordered_map<void*, GuardedBlock> blocks;
  size_t bytes = 0;
};
Held& held() {
  static Held* const one = new Held;
  return *one;
}

void free_guarded(void* data) {
  if (data == nullptr) return;
  const std::lock_guard lock(held().mutex);
  const auto block = held().blocks.find(data);
  LW_CHECK(block != held().blocks.end(), "torch frees what it was given");
  held().bytes -= block->second.size();
  held().blocks.erase(block);
}

class GuardedAllocator final : public c10::Allocator {
 public:
  explicit GuardedAllocator(size_t budget) : budget_(budget) {}

  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, cpu};
    const std::lock_guard lock(held().mutex);
    if (bytes > budget_ || held().bytes + bytes > budget_) throw std::bad_alloc();
    GuardedBlock block(bytes);
    void* data = block.data();
    held().blocks.emplace(data, std::move(block));
    held().bytes += bytes;
    return {data, data, &free_guarded, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_guarded; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  size_t budget_;
};

}  // namespace

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

GuardedBlock::GuardedBlock(size_t bytes)
    : mapped_bytes_(whole_pages(bytes) + 2 * page_bytes()), size_(bytes) {
  void* mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mapped_ = static_cast<std::byte*>(mapped);
  const size_t inside = whole_pages(bytes);
  if (inside > 0) {
    const int done = mprotect(mapped_ + page_bytes(), inside, PROT_READ | PROT_WRITE);
    LW_CHECK(done == 0, "pages can be opened");
  }
  data_ = mapped_ + page_bytes() + inside - bytes;
}

GuardedBlock::~GuardedBlock() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

GuardedBlock::GuardedBlock(GuardedBlock&& other) noexcept
    : mapped_(std::exchange(other.mapped_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      data_(other.data_),
      size_(other.size_) {}

void GuardedBlock::forbid(size_t offset, size_t bytes) const {
  const int done = mprotect(data_ + offset, bytes, PROT_NONE);
  LW_CHECK(done == 0, "pages can be closed");
}

void guard_torch_allocations(size_t budget) {
  static GuardedAllocator allocator(budget);
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

}  // namespace laneway::testing
