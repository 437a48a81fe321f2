#include "adaptor/host/host_lane.h"

#include <cstring>

namespace laneway::adaptor {
namespace {

class CompleteIteration final : public lanes::EnqueuedIteration {
 public:
  bool done() const override { return true; }
  Status retire() override { return {}; }
};

}  // namespace

HostLane::HostLane() { install_cpu_lane_allocator(); }

void HostLane::enter(memory::LaneArena& arena, const lanes::NumericContext& context) {
  bound_.emplace(arena, context);
}

void HostLane::leave() { bound_.reset(); }

Status HostLane::upload(void* to_device, const void* from_host, Bytes bytes) {
  if (bytes > Bytes(0)) std::memcpy(to_device, from_host, static_cast<size_t>(bytes.count()));
  return {};
}

Status HostLane::download(void* to_host, const void* from_device, Bytes bytes) {
  if (bytes > Bytes(0)) std::memcpy(to_host, from_device, static_cast<size_t>(bytes.count()));
  return {};
}

std::unique_ptr<lanes::EnqueuedIteration> HostLane::enqueue() {
  return std::make_unique<CompleteIteration>();
}

}  // namespace laneway::adaptor
