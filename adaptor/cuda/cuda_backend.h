// CudaBackend: a CUDA device for worker and adaptor: memory/device/cuda below, LibTorch's CUDA side
// above, in one context. Thread-safe; must outlive all objects that it made.
#pragma once

#include <memory>
#include <string>

#include "adaptor/cuda/cuda_torch_device.h"
#include "adaptor/cuda/kept_memory.h"
#include "adaptor/cuda/sm_partitions.h"
#include "adaptor/device/torch_backend.h"
#include "base/clock.h"
#include "memory/device/cuda/cuda_device.h"
#include "memory/stream_pool_access.h"

namespace laneway::adaptor {

class CudaBackend final : public TorchBackend {
 public:
  // unsupported names what is missing: the driver, the device, torch's CUDA side, or partitions.
  static Result<std::unique_ptr<Backend>> open(uint32_t index, const BackendOptions& options);

  memory::CudaDevice& device() override { return *device_; }
  memory::StreamPoolAccess& pool_access() override { return *access_; }
  TorchDevice& torch() override { return torch_; }
  Result<std::unique_ptr<DeviceLane>> make_lane() override;
  std::string kernels() const override { return "cuda"; }
  Bytes free_memory() const override { return device_->free_memory(); }
  Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int descriptor, Bytes size) override;
  size_t escaped_within(const std::byte* base, Bytes size) override;
  Status health() const override { return device_->health(); }

 private:
  CudaBackend(uint32_t index, std::unique_ptr<memory::CudaDevice> device,
              std::unique_ptr<memory::StreamPoolAccess> access,
              std::unique_ptr<SmPartitions> partitions);

  Result<std::unique_ptr<DeviceLane>> make_lane_in(SmPartitions::Lease lease);

  const c10::DeviceIndex index_;
  const std::unique_ptr<memory::CudaDevice> device_;
  const std::unique_ptr<memory::StreamPoolAccess> access_;
  const std::unique_ptr<SmPartitions> partitions_;  // null: lanes share the whole device
  const SteadyClock clock_;
  KeptMemory kept_;
  CudaTorchDevice torch_;
};

}  // namespace laneway::adaptor
