// CudaDevice: an NVIDIA GPU, through the driver alone. Its context is the primary one, so LibTorch
// in the same process computes on the same memory. Beyond what every device has: pools of other
// processes, partitions, freeing in the order of a stream, and whether it still lives.
// Thread-safe. Unusable in children made by fork(): there every call fails with device_lost.
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
  // Error unsupported, saying what is missing (driver, version, device) and the remedy.
  static Result<std::unique_ptr<CudaDevice>> open(int ordinal);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Capabilities& capabilities() const override { return capabilities_; }
  // Waits for blocks that are being freed before it says that there is no room.
  Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size) override;
  Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size) override;
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;

  // A stream of that partition; null: of the whole device.
  Result<std::unique_ptr<CudaStream>> create_stream(const SmPartition* partition);
  // The driver's stream behind one of this device's.
  static CUstream native(Stream& stream);

  // The pool that another process made with allocate_pool(size) and handed over the descriptor of,
  // mapped here with the bytes that are in it. Takes the descriptor over, also on failure. Errors:
  // invalid_argument when it is something else, unsupported where the platform cannot.
  Result<std::unique_ptr<MemoryBlock>> attach_pool(int descriptor, Bytes size);
  // Frees a block of this device's, pool or host, when everything enqueued on the stream so far is
  // done, and returns before. Its addresses are refused at once.
  void free_on(std::unique_ptr<MemoryBlock> block, Stream& stream);
  // See SmPartition::split.
  Result<std::vector<std::unique_ptr<SmPartition>>> partition(uint32_t sms);

  // device_lost, with what the device said, once it failed for good; asks the device.
  Status health() const;
  Bytes free_memory() const { return memory_.free_memory(); }
  uint32_t sm_count() const { return sm_count_; }
  const std::string& name() const { return name_; }  // "NVIDIA H100 80GB HBM3"
  const CudaContext& context() const { return *context_; }

 private:
  // Freed when the event is done.
  struct Leaving {
    std::unique_ptr<Event> done;
    std::unique_ptr<MemoryBlock> block;
  };

  CudaDevice(std::unique_ptr<CudaContext> context, CUstream own, std::string name,
             uint32_t sm_count);
  // Frees what is done; with `wait`, all.
  void free_leaving(bool wait);

  const std::unique_ptr<CudaContext> context_;
  const CUstream own_;  // for clearing memory, and for asking whether the device lives
  const std::string name_;
  const uint32_t sm_count_;
  CudaEventPool events_;
  CudaMemory memory_;
  Capabilities capabilities_;
  Mutex mutex_;
  std::vector<Leaving> leaving_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::memory
