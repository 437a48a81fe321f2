// SyntheticBackend: the host's memory as a backend whose jobs are SyntheticJobs. open_backend,
// which this library defines, gives one for "host". Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "adaptor/device/backend.h"
#include "memory/device/host_device.h"
#include "memory/host_pool_access.h"

namespace laneway::testing {

class SyntheticBackend final : public adaptor::Backend {
 public:
  memory::HostDevice& device() override { return device_; }
  memory::HostPoolAccess& pool_access() override { return access_; }
  Result<std::unique_ptr<adaptor::DeviceLane>> make_lane() override;
  std::string kernels() const override { return "cpu"; }
  Bytes free_memory() const override { return gib(1); }
  Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int descriptor, Bytes size) override;
  size_t escaped_within(const std::byte* base, Bytes size) override;
  Status health() const override { return {}; }

 private:
  memory::HostDevice device_;
  memory::HostPoolAccess access_{device_.link()};
};

}  // namespace laneway::testing
