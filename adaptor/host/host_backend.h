// HostBackend: the CPU as a backend: all work is complete when a call returns, and the pool is
// memory that the CPU can address. Includes nothing of torch. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "adaptor/device/torch_backend.h"
#include "memory/device/host_device.h"
#include "memory/host_pool_access.h"

namespace laneway::adaptor {

class HostBackend final : public TorchBackend {
 public:
  HostBackend();
  ~HostBackend() override;

  memory::HostDevice& device() override { return device_; }
  memory::HostPoolAccess& pool_access() override { return access_; }
  TorchDevice& torch() override;
  Result<std::unique_ptr<DeviceLane>> make_lane() override;
  std::string kernels() const override { return "cpu"; }
  // The free memory of the machine.
  Bytes free_memory() const override;
  Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int descriptor, Bytes size) override;
  size_t escaped_within(const std::byte* base, Bytes size) override;
  Status health() const override { return {}; }

 private:
  memory::HostDevice device_;
  memory::HostPoolAccess access_{device_.link()};
  const std::unique_ptr<TorchDevice> torch_;
};

}  // namespace laneway::adaptor
