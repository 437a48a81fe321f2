#include "tests/fake_cuda/pinned_memory.h"

#include <sys/mman.h>

namespace laneway::fake_cuda {
namespace {

constexpr size_t kPage = 4096;

size_t whole_pages(size_t size) { return (size + kPage - 1) / kPage * kPage; }

}  // namespace

CUresult PinnedMemory::allocate(size_t size, unsigned flags, void** address) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* range =
      mmap(nullptr, whole_pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  ranges_.emplace(reinterpret_cast<uintptr_t>(range), Range{size, flags, true});
  *address = range;
  return CUDA_SUCCESS;
}

CUresult PinnedMemory::free(void* address) {
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(address));
  if (found == ranges_.end() || !found->second.ours) return CUDA_ERROR_INVALID_VALUE;
  munmap(address, whole_pages(found->second.size));
  ranges_.erase(found);
  return CUDA_SUCCESS;
}

CUresult PinnedMemory::add(void* address, size_t size, unsigned flags) {
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  if (overlaps(begin, size)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  ranges_.emplace(begin, Range{size, flags, false});
  return CUDA_SUCCESS;
}

CUresult PinnedMemory::remove(void* address) {
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(address));
  if (found == ranges_.end() || found->second.ours) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  ranges_.erase(found);
  return CUDA_SUCCESS;
}

bool PinnedMemory::holds(const void* address, size_t size) const {
  void* base = nullptr;
  size_t length = 0;
  unsigned flags = 0;
  if (!range_of(address, &base, &length, &flags)) return false;
  return static_cast<const char*>(address) + size <= static_cast<const char*>(base) + length;
}

bool PinnedMemory::range_of(const void* address, void** base, size_t* size, unsigned* flags) const {
  auto next = ranges_.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (next == ranges_.begin()) return false;
  const auto& [begin, range] = *--next;
  if (reinterpret_cast<uintptr_t>(address) >= begin + range.size) return false;
  *base = reinterpret_cast<void*>(begin);
  *size = range.size;
  *flags = range.flags;
  return true;
}

bool PinnedMemory::overlaps(uintptr_t begin, size_t size) const {
  for (const auto& [other, range] : ranges_) {
    if (other < begin + size && begin < other + range.size) return true;
  }
  return false;
}

}  // namespace laneway::fake_cuda
