#include "tests/remote_backend/remote_lane.h"

#include <utility>

#include "base/check.h"

namespace laneway::testing {

RemoteLane::RemoteLane(memory::Device& device, std::unique_ptr<memory::Stream> stream,
                       const Clock& clock)
    : StreamLane(device, std::move(stream), clock) {
  adaptor::install_cpu_lane_allocator();
}

void RemoteLane::enter(memory::LaneArena& arena, const lanes::NumericContext& context) {
  LW_CHECK(drain().ok(), "the CPU's streams do not fail");
  numeric_.emplace(context);
  binding_.emplace(arena);
}

void RemoteLane::leave() {
  binding_.reset();
  numeric_.reset();
}

Status RemoteLane::upload(void* to_device, const void* from_host, Bytes bytes) {
  Status sent = StreamLane::upload(to_device, from_host, bytes);
  return sent ? drain() : sent;
}

}  // namespace laneway::testing
