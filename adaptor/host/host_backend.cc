#include "adaptor/host/host_backend.h"

#include <unistd.h>

#include "adaptor/host/host_lane.h"
#include "adaptor/host/host_torch_device.h"
#include "adaptor/scope/lane_blocks.h"

namespace laneway::adaptor {

HostBackend::HostBackend() : torch_(std::make_unique<HostTorchDevice>()) {}

HostBackend::~HostBackend() = default;

TorchDevice& HostBackend::torch() { return *torch_; }

Result<std::unique_ptr<DeviceLane>> HostBackend::make_lane() {
  return std::unique_ptr<DeviceLane>(std::make_unique<HostLane>());
}

Bytes HostBackend::free_memory() const {
  return Bytes(::sysconf(_SC_AVPHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

Result<std::unique_ptr<memory::MemoryBlock>> HostBackend::attach_pool(int descriptor, Bytes size) {
  return device_.attach_pool(descriptor, size);
}

size_t HostBackend::escaped_within(const std::byte* base, Bytes size) {
  return LaneBlocks::instance().escaped_within(base, size);
}

}  // namespace laneway::adaptor
