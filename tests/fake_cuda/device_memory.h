// DeviceMemory: the fake device's memory. Device addresses lie in a range of the process that
// nobody may touch, so a CPU that takes one for its own crashes there; the bytes are mapped a
// second time, at a constant distance, where only the fake's own work reaches them. Physical memory
// is a memfd each, so that a second process that is handed the descriptor really shares it. Guarded
// by the Gpu's mutex.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>

namespace laneway::fake_cuda {

// Device memory as such; freed with the last handle, mapping or shared descriptor.
class Physical {
 public:
  Physical(int fd, size_t size, size_t* used) : fd_(fd), size_(size), used_(used) {
    *used_ += size_;
  }
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  int fd() const { return fd_; }
  size_t size() const { return size_; }

  bool exportable = false;
  int handles = 1;  // cuMemRetainAllocationHandle counts on one handle

 private:
  const int fd_;
  const size_t size_;
  size_t* const used_;
};

class DeviceMemory {
 public:
  static constexpr size_t kGranularity = size_t{2} << 20;
  static constexpr size_t kAlignment = 512;

  // `fill`: see Settings.
  DeviceMemory(size_t total, int fill);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  size_t total() const { return total_; }
  size_t used() const { return used_; }

  // cuMemAlloc and cuMemFree: reservation, physical memory, mapping and access in one.
  CUresult allocate(size_t size, CUdeviceptr* address);
  CUresult free(CUdeviceptr address);

  CUresult reserve(size_t size, size_t alignment, CUdeviceptr* address);
  CUresult unreserve(CUdeviceptr address, size_t size);
  CUresult create(size_t size, bool exportable, CUmemGenericAllocationHandle* handle);
  // Takes over a duplicate of `fd`.
  CUresult import(int fd, CUmemGenericAllocationHandle* handle);
  CUresult release(CUmemGenericAllocationHandle handle);
  CUresult retain(CUdeviceptr address, CUmemGenericAllocationHandle* handle);
  CUresult map(CUdeviceptr address, size_t size, size_t offset,
               CUmemGenericAllocationHandle handle);
  CUresult unmap(CUdeviceptr address, size_t size);
  CUresult set_access(CUdeviceptr address, size_t size, bool readable);
  std::shared_ptr<Physical> physical(CUmemGenericAllocationHandle handle) const;

  // Where the fake reaches the bytes; null unless all of them are mapped and accessible.
  char* bytes(CUdeviceptr address, size_t size) const;
  // Whether the address is one of the device's range, mapped or not.
  bool owns(CUdeviceptr address) const { return address >= base_ && address < base_ + kSpace; }
  // The allocation or mapping that holds the address.
  bool range_of(CUdeviceptr address, CUdeviceptr* base, size_t* size) const;

  size_t mappings() const { return mappings_.size(); }
  size_t reservations() const { return reservations_.size(); }
  size_t handles() const { return handles_.size(); }
  // Everything, as when the context goes.
  void clear();

 private:
  static constexpr size_t kSpace = size_t{1} << 38;

  struct Mapping {
    size_t size;
    std::shared_ptr<Physical> physical;
    bool accessible;
    bool allocated;  // by allocate(): only free() takes it away
  };
  using Handle = CUmemGenericAllocationHandle;

  std::shared_ptr<Physical> make_physical(size_t size);
  void show(CUdeviceptr address, size_t size, const Physical& physical, size_t offset);
  void hide(CUdeviceptr address, size_t size);

  const size_t total_;
  const int fill_;
  size_t used_ = 0;
  CUdeviceptr base_ = 0;
  char* shadow_ = nullptr;
  std::map<CUdeviceptr, size_t> reservations_;
  std::map<CUdeviceptr, Mapping> mappings_;
  std::map<Handle, std::shared_ptr<Physical>> handles_;
  Handle next_handle_ = 0x700000;
};

}  // namespace laneway::fake_cuda
