// CudaMemory: the blocks of a CUDA device. Pool blocks are device memory, exported by a descriptor
// where the platform allows it (DeviceMapping), else plain allocations; host blocks are pinned.
// Thread-safe; must outlive its blocks.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "memory/device/block_ranges.h"
#include "memory/device/cuda/cuda_context.h"
#include "memory/device/cuda/device_mapping.h"
#include "memory/device/device.h"

namespace laneway::memory {

class CudaMemory {
 public:
  // `label` names the device in errors. `clearing` is a stream of the context, on which fresh
  // memory is cleared; it must outlive this object.
  CudaMemory(const CudaContext& context, std::string label, CUstream clearing);

  // Whether pool blocks have descriptors; where not, why.
  const Status& exportable() const { return exportable_; }
  const BlockRanges& pool_blocks() const { return pool_blocks_; }

  // As Device::allocate_pool, allocate_host and pin.
  Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size);
  Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size);
  Result<std::unique_ptr<MemoryBlock>> pin(std::byte* memory, Bytes size);
  // As CudaDevice::attach_pool.
  Result<std::unique_ptr<MemoryBlock>> attach_pool(int descriptor, Bytes size);
  // From now on calls with the block's addresses are refused, although its memory is still there.
  void retire(const MemoryBlock& block) { pool_blocks_.remove(block.data()); }

  Bytes free_memory() const;

 private:
  class MappedBlock;
  class PlainBlock;
  class HostBlock;

  Result<std::unique_ptr<MemoryBlock>> add_mapping(Result<DeviceMapping> mapping, Bytes size);
  Result<std::unique_ptr<MemoryBlock>> allocate_plain(Bytes size);
  Status clear(const MemoryBlock& block);
  Error no_room(Bytes size) const;

  const CudaContext& context_;
  const std::string label_;
  const CUstream clearing_;
  const Status exportable_;
  BlockRanges pool_blocks_;
};

}  // namespace laneway::memory
