#include "memory/device/cuda/cuda_memory.h"

#include <unistd.h>

#include <utility>

#include "base/log.h"

namespace laneway::memory {
namespace {

constexpr int64_t kPage = 4'096;  // to which pool blocks are aligned at least

Error no_size(const char* what, Bytes size) {
  return Error{ErrorCode::invalid_argument, std::string(what) + " of " + format_bytes(size) +
                                                ": the size must be at least one byte"};
}

Bytes memory_of_the_machine() {
  return Bytes(int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE));
}

}  // namespace

class CudaMemory::MappedBlock final : public MemoryBlock {
 public:
  MappedBlock(BlockRanges& ranges, DeviceMapping mapping, Bytes size)
      : ranges_(ranges), mapping_(std::move(mapping)), size_(size) {
    ranges_.add(mapping_.data(), size_);
  }
  ~MappedBlock() override { ranges_.remove(mapping_.data()); }
  MappedBlock(const MappedBlock&) = delete;
  MappedBlock& operator=(const MappedBlock&) = delete;

  std::byte* data() const override { return mapping_.data(); }
  Bytes size() const override { return size_; }
  int descriptor() const override { return mapping_.descriptor(); }

 private:
  BlockRanges& ranges_;
  DeviceMapping mapping_;
  const Bytes size_;
};

class CudaMemory::PlainBlock final : public MemoryBlock {
 public:
  PlainBlock(BlockRanges& ranges, const CudaContext& context, CUdeviceptr address, Bytes size)
      : ranges_(ranges), context_(context), address_(address), size_(size) {
    ranges_.add(data(), size_);
  }
  ~PlainBlock() override {
    ranges_.remove(data());
    const CudaContext::RelaxedScope scope(context_);
    context_.driver().cuMemFree(address_);
  }
  PlainBlock(const PlainBlock&) = delete;
  PlainBlock& operator=(const PlainBlock&) = delete;

  std::byte* data() const override {
    return reinterpret_cast<std::byte*>(Bytes(int64_t(address_)).aligned_up(kPage).count());
  }
  Bytes size() const override { return size_; }
  int descriptor() const override { return -1; }

 private:
  BlockRanges& ranges_;
  const CudaContext& context_;
  const CUdeviceptr address_;
  const Bytes size_;
};

class CudaMemory::HostBlock final : public MemoryBlock {
 public:
  // `release`: of the driver, how the memory is freed, or not pinned any more.
  using Release = CUresult (*)(void*);
  HostBlock(const CudaContext& context, void* data, Bytes size, Release release)
      : context_(context), data_(static_cast<std::byte*>(data)), size_(size), release_(release) {}
  ~HostBlock() override {
    const CudaContext::RelaxedScope scope(context_);
    release_(data_);
  }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  std::byte* data() const override { return data_; }
  Bytes size() const override { return size_; }
  int descriptor() const override { return -1; }

 private:
  const CudaContext& context_;
  std::byte* const data_;
  const Bytes size_;
  const Release release_;
};

CudaMemory::CudaMemory(const CudaContext& context, std::string label, CUstream clearing)
    : context_(context),
      label_(std::move(label)),
      clearing_(clearing),
      exportable_(DeviceMapping::possible(context)) {
  if (exportable_.ok()) return;
  log_info(context.name() +
           ": its memory cannot be shared between processes, and ends with its own: " +
           exportable_.error().message);
}

Result<std::unique_ptr<MemoryBlock>> CudaMemory::allocate_pool(Bytes size) {
  if (size <= Bytes(0)) return no_size("device memory", size);
  if (size > free_memory()) return no_room(size);
  auto made = exportable_.ok() ? add_mapping(DeviceMapping::create(context_, size), size)
                               : allocate_plain(size);
  if (!made.ok()) {
    return made.error().code == ErrorCode::out_of_memory ? no_room(size) : made.error();
  }
  if (Status cleared = clear(*made.value()); !cleared.ok()) return cleared.error();
  return made;
}

Result<std::unique_ptr<MemoryBlock>> CudaMemory::attach_pool(int descriptor, Bytes size) {
  return add_mapping(DeviceMapping::attach(context_, descriptor, size), size);
}

Result<std::unique_ptr<MemoryBlock>> CudaMemory::add_mapping(Result<DeviceMapping> mapping,
                                                             Bytes size) {
  if (!mapping.ok()) return mapping.error();
  return std::unique_ptr<MemoryBlock>(
      std::make_unique<MappedBlock>(pool_blocks_, std::move(mapping).value(), size));
}

// The driver promises less than a page of alignment.
Result<std::unique_ptr<MemoryBlock>> CudaMemory::allocate_plain(Bytes size) {
  const CudaContext::RelaxedScope scope(context_);
  CUdeviceptr address = 0;
  const auto bytes = static_cast<size_t>(size.count() + kPage);
  Status made = context_.check(context_.driver().cuMemAlloc(&address, bytes), "allocating memory");
  if (!made.ok()) return made.error();
  return std::unique_ptr<MemoryBlock>(
      std::make_unique<PlainBlock>(pool_blocks_, context_, address, size));
}

Status CudaMemory::clear(const MemoryBlock& block) {
  const CudaContext::RelaxedScope scope(context_);
  const CudaDriver& driver = context_.driver();
  const auto address = reinterpret_cast<CUdeviceptr>(block.data());
  const auto bytes = static_cast<size_t>(block.size().count());
  CUresult done = driver.cuMemsetD8Async(address, 0, bytes, clearing_);
  if (done == CUDA_SUCCESS) done = driver.cuStreamSynchronize(clearing_);
  return context_.check(done, "clearing memory");
}

Result<std::unique_ptr<MemoryBlock>> CudaMemory::allocate_host(Bytes size) {
  if (size <= Bytes(0)) return no_size("pinned host memory", size);
  const Error none{ErrorCode::out_of_memory,
                   "pinned host memory of " + format_bytes(size) +
                       " cannot be had: the machine has " + format_bytes(memory_of_the_machine()) +
                       ", and a part of it may be locked; ask for less, or free memory first"};
  const CudaContext::RelaxedScope scope(context_);
  void* data = nullptr;
  // Portable: pinned for every context of the process.
  const CUresult made = context_.driver().cuMemHostAlloc(&data, static_cast<size_t>(size.count()),
                                                         CU_MEMHOSTALLOC_PORTABLE);
  if (made == CUDA_ERROR_OUT_OF_MEMORY) return none;
  if (made != CUDA_SUCCESS) return context_.failure(made, "allocating pinned host memory");
  return std::unique_ptr<MemoryBlock>(
      std::make_unique<HostBlock>(context_, data, size, context_.driver().cuMemFreeHost));
}

Result<std::unique_ptr<MemoryBlock>> CudaMemory::pin(std::byte* memory, Bytes size) {
  if (size <= Bytes(0)) return no_size("pinned host memory", size);
  const CudaContext::RelaxedScope scope(context_);
  const CUresult made = context_.driver().cuMemHostRegister(
      memory, static_cast<size_t>(size.count()), CU_MEMHOSTREGISTER_PORTABLE);
  if (made == CUDA_ERROR_OUT_OF_MEMORY) {
    return Error{ErrorCode::out_of_memory,
                 format_bytes(size) + " of the CPU's memory cannot be pinned: the machine has " +
                     format_bytes(memory_of_the_machine()) + ", and a part of it may be locked"};
  }
  if (made != CUDA_SUCCESS) return context_.failure(made, "pinning memory");
  return std::unique_ptr<MemoryBlock>(
      std::make_unique<HostBlock>(context_, memory, size, context_.driver().cuMemHostUnregister));
}

Bytes CudaMemory::free_memory() const {
  const CudaContext::RelaxedScope scope(context_);
  size_t free = 0;
  size_t total = 0;
  if (context_.driver().cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return Bytes(0);
  return Bytes(static_cast<int64_t>(free));
}

Error CudaMemory::no_room(Bytes size) const {
  return Error{ErrorCode::out_of_memory,
               "device memory of " + format_bytes(size) + " cannot be had: " + label_ + " has " +
                   format_bytes(free_memory()) +
                   " free; ask for less, or free device memory first, other processes' too"};
}

}  // namespace laneway::memory
