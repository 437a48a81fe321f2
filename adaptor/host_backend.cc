#include "adaptor/host_backend.h"

#include <unistd.h>

#include <utility>

#include "adaptor/host_lane.h"
#include "adaptor/host_torch_device.h"
#include "adaptor/lane_blocks.h"
#include "memory/shared_memory.h"

namespace laneway::adaptor {
namespace {

class AttachedPool final : public memory::MemoryBlock {
 public:
  explicit AttachedPool(memory::SharedMemory pool) : memory_(std::move(pool)) {}
  std::byte* data() const override { return memory_.data(); }
  Bytes size() const override { return memory_.size(); }
  int descriptor() const override { return memory_.descriptor(); }

 private:
  memory::SharedMemory memory_;
};

}  // namespace

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
  auto attached = memory::SharedMemory::attach(descriptor, size);
  if (!attached) return attached.error();
  return std::unique_ptr<memory::MemoryBlock>(
      std::make_unique<AttachedPool>(std::move(attached).value()));
}

size_t HostBackend::escaped_within(const std::byte* base, Bytes size) {
  return LaneBlocks::instance().escaped_within(base, size);
}

}  // namespace laneway::adaptor
