#include "tests/fake_cuda/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace laneway::fake_cuda {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kFilled = size_t{1} << 20;

size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

char* forbidden_range(size_t size) {
  void* range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LW_CHECK(range != MAP_FAILED, "the fake device finds no range of addresses");
  return static_cast<char*>(range);
}

}  // namespace

Physical::~Physical() {
  *used_ -= size_;
  close(fd_);
}

DeviceMemory::DeviceMemory(size_t total, int fill) : total_(total), fill_(fill) {
  // Aligned addresses, as the device's own are: granularity is asked of them.
  base_ =
      round_up(reinterpret_cast<CUdeviceptr>(forbidden_range(kSpace + kGranularity)), kGranularity);
  shadow_ = forbidden_range(kSpace);
}

CUresult DeviceMemory::allocate(size_t size, CUdeviceptr* address) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t whole = round_up(size, kPage);
  if (whole > total_ - std::min(total_, used_)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (reserve(whole, kAlignment, address) != CUDA_SUCCESS) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::shared_ptr<Physical> physical = make_physical(whole);
  show(*address, whole, *physical, 0);
  mappings_.emplace(*address, Mapping{size, physical, true, true});
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::free(CUdeviceptr address) {
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || !found->second.allocated) return CUDA_ERROR_INVALID_VALUE;
  const size_t whole = round_up(found->second.size, kPage);
  hide(address, whole);
  mappings_.erase(found);
  return unreserve(address, whole);
}

CUresult DeviceMemory::reserve(size_t size, size_t alignment, CUdeviceptr* address) {
  if (size == 0 || size % kPage != 0) return CUDA_ERROR_INVALID_VALUE;
  alignment = std::max(alignment, kPage);
  CUdeviceptr from = round_up(base_, alignment);
  for (const auto& [begin, length] : reservations_) {
    if (from + size <= begin) break;
    // A page between two ranges: a copy that runs over an end meets nothing.
    from = round_up(begin + length + kPage, alignment);
  }
  if (from + size > base_ + kSpace) return CUDA_ERROR_OUT_OF_MEMORY;
  reservations_.emplace(from, size);
  *address = from;
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::unreserve(CUdeviceptr address, size_t size) {
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != size) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [begin, mapping] : mappings_) {
    if (begin >= address && begin < address + size) return CUDA_ERROR_INVALID_VALUE;
  }
  reservations_.erase(found);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::create(size_t size, bool exportable, Handle* handle) {
  if (size == 0 || size % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > total_ - std::min(total_, used_)) return CUDA_ERROR_OUT_OF_MEMORY;
  std::shared_ptr<Physical> physical = make_physical(size);
  physical->exportable = exportable;
  *handle = next_handle_ += 16;
  handles_.emplace(*handle, std::move(physical));
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::import(int fd, Handle* handle) {
  struct stat status {};
  // Only a memfd has seals: other descriptors are none of ours.
  if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &status) != 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0 || size % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  auto physical = std::make_shared<Physical>(own, size, &used_);
  physical->exportable = true;
  *handle = next_handle_ += 16;
  handles_.emplace(*handle, std::move(physical));
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::release(Handle handle) {
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second->handles == 0) handles_.erase(found);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::retain(CUdeviceptr address, Handle* handle) {
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto& [begin, mapping] = *--next;
  if (address >= begin + mapping.size || mapping.allocated) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [known, physical] : handles_) {
    if (physical != mapping.physical) continue;
    ++physical->handles;
    *handle = known;
    return CUDA_SUCCESS;
  }
  mapping.physical->handles = 1;
  *handle = next_handle_ += 16;
  handles_.emplace(*handle, mapping.physical);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::map(CUdeviceptr address, size_t size, size_t offset, Handle handle) {
  const std::shared_ptr<Physical> memory = physical(handle);
  if (memory == nullptr || offset != 0 || size != memory->size()) return CUDA_ERROR_INVALID_VALUE;
  auto around = reservations_.upper_bound(address);
  if (around == reservations_.begin()) return CUDA_ERROR_INVALID_VALUE;
  --around;
  if (address % kGranularity != 0 || address + size > around->first + around->second) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& [begin, mapping] : mappings_) {
    if (begin < address + size && address < begin + mapping.size) return CUDA_ERROR_INVALID_VALUE;
  }
  show(address, size, *memory, offset);
  mappings_.emplace(address, Mapping{size, memory, false, false});
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::unmap(CUdeviceptr address, size_t size) {
  // Whole mappings, without a gap.
  CUdeviceptr at = address;
  while (at < address + size) {
    const auto found = mappings_.find(at);
    if (found == mappings_.end() || found->second.allocated) return CUDA_ERROR_INVALID_VALUE;
    at += found->second.size;
  }
  if (at != address + size) return CUDA_ERROR_INVALID_VALUE;
  hide(address, size);
  mappings_.erase(mappings_.lower_bound(address), mappings_.lower_bound(address + size));
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::set_access(CUdeviceptr address, size_t size, bool readable) {
  CUdeviceptr at = address;
  while (at < address + size) {
    const auto found = mappings_.find(at);
    if (found == mappings_.end() || found->second.allocated) return CUDA_ERROR_INVALID_VALUE;
    found->second.accessible = readable;
    at += found->second.size;
  }
  return at == address + size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

std::shared_ptr<Physical> DeviceMemory::physical(Handle handle) const {
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

char* DeviceMemory::bytes(CUdeviceptr address, size_t size) const {
  CUdeviceptr at = address;
  while (at < address + size || at == address) {
    CUdeviceptr begin = 0;
    size_t length = 0;
    if (!range_of(at, &begin, &length) || !mappings_.at(begin).accessible) return nullptr;
    at = begin + length;
  }
  return shadow_ + (address - base_);
}

bool DeviceMemory::range_of(CUdeviceptr address, CUdeviceptr* base, size_t* size) const {
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return false;
  const auto& [begin, mapping] = *--next;
  if (address >= begin + mapping.size) return false;
  *base = begin;
  *size = mapping.size;
  return true;
}

void DeviceMemory::clear() {
  hide(base_, kSpace);
  mappings_.clear();
  reservations_.clear();
  handles_.clear();
}

std::shared_ptr<Physical> DeviceMemory::make_physical(size_t size) {
  const int fd = memfd_create("fake device memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  LW_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0, "no memory to fake a device");
  if (fill_ >= 0) {
    const size_t filled = std::min(size, kFilled);
    void* bytes = mmap(nullptr, filled, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    LW_CHECK(bytes != MAP_FAILED, "no memory to fake a device");
    std::memset(bytes, fill_, filled);
    munmap(bytes, filled);
  }
  return std::make_shared<Physical>(fd, size, &used_);
}

void DeviceMemory::show(CUdeviceptr address, size_t size, const Physical& physical, size_t offset) {
  void* shown = mmap(shadow_ + (address - base_), size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, physical.fd(), static_cast<off_t>(offset));
  LW_CHECK(shown != MAP_FAILED, "the fake device's memory cannot be mapped");
}

void DeviceMemory::hide(CUdeviceptr address, size_t size) {
  void* hidden = mmap(shadow_ + (address - base_), size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  LW_CHECK(hidden != MAP_FAILED, "the fake device's memory cannot be unmapped");
}

}  // namespace laneway::fake_cuda
