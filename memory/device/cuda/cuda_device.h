// CudaDevice: an NVIDIA GPU, through the driver alone. Its context is the primary one, so LibTorch
// in the same process computes on the same memory. It adds to Device: pools of other processes,
// partitions, frees in the order of a stream, and the device's health. Thread-safe. In children
// made by fork() every call fails with device_lost.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "memory/device/cuda/cuda_context.h"
#include "memory/device/cuda/cuda_event_pool.h"
#include "memory/device/cuda/cuda_memory.h"
#include "memory/device/cuda/cuda_stream.h"
#include "memory/device/cuda/sm_partition.h"
#include "memory/device/device.h"

namespace laneway::memory {

class CudaDevice final : public Device {
 public:
  // Error unsupported names what is missing (driver, version, device) and the remedy.
  static Result<std::unique_ptr<CudaDevice>> open(int ordinal);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Capabilities& capabilities() const override { return capabilities_; }
  // Waits for blocks that are being freed before it returns out_of_memory.
  Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size) override;
  Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size) override;
  Result<std::unique_ptr<MemoryBlock>> pin(std::byte* memory, Bytes size) override;
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;

  // Makes a stream of `partition`; null: of the whole device.
  Result<std::unique_ptr<CudaStream>> create_stream(const SmPartition* partition);
  // The driver's stream behind one of this device's.
  static CUstream native(Stream& stream);

  // Maps the pool that another process made with allocate_pool(size), with its bytes; `descriptor`
  // is that block's. Takes ownership of the descriptor, also on failure. Errors: invalid_argument
  // when the descriptor is of anything else, unsupported where the platform cannot map it.
  Result<std::unique_ptr<MemoryBlock>> attach_pool(int descriptor, Bytes size);
  // Frees a block of this device, pool or host, when all work enqueued on `stream` so far is
  // complete, and returns before that. Calls with the block's addresses are refused at once.
  void free_on(std::unique_ptr<MemoryBlock> block, Stream& stream);
  // See SmPartition::split.
  Result<std::vector<std::unique_ptr<SmPartition>>> partition(uint32_t sms);

  // device_lost with the device's error, once the device failed for good. Queries the device.
  Status health() const;
  // Why capabilities().pool_is_exportable is false.
  const Status& exportable() const { return memory_.exportable(); }
  Bytes free_memory() const { return memory_.free_memory(); }
  uint32_t sm_count() const { return sm_count_; }
  const std::string& name() const { return name_; }  // "NVIDIA H100 80GB HBM3"
  const CudaContext& context() const { return *context_; }

 private:
  // A block that is freed when the event is done.
  struct Leaving {
    std::unique_ptr<Event> done;
    std::unique_ptr<MemoryBlock> block;
  };

  CudaDevice(std::unique_ptr<CudaContext> context, CUstream own, std::string name,
             uint32_t sm_count);
  // Frees the blocks whose events are done; with `wait`, waits and frees all.
  void free_leaving(bool wait);

  const std::unique_ptr<CudaContext> context_;
  const CUstream own_;  // clears memory, and shows whether the device still works
  const std::string name_;
  const uint32_t sm_count_;
  CudaEventPool events_;
  CudaMemory memory_;
  Capabilities capabilities_;
  Mutex mutex_;
  std::vector<Leaving> leaving_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::memory
