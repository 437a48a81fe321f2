#include "tests/remote_backend/remote_lane.h"

#include <utility>

#include "base/check.h"

namespace laneway::testing {

RemoteLane::RemoteLane(RemoteDevice& device, std::unique_ptr<memory::Stream> stream,
                       const Clock& clock)
    : StreamLane(device, std::move(stream), clock), remote_(device), loss_(device.loss()) {
  adaptor::install_cpu_lane_allocator();
}

void RemoteLane::enter(memory::LaneArena& arena, const lanes::NumericContext& context) {
  const Status drained = drain();
  LW_CHECK(drained.ok() || !loss_->health(), "the CPU's streams do not fail");
  remote_stream().break_at_events(false);
  numeric_.emplace(context);
  binding_.emplace(arena);
}

void RemoteLane::leave() {
  binding_.reset();
  numeric_.reset();
}

Status RemoteLane::upload(void* to_device, const void* from_host, Bytes bytes) {
  const auto when = RemoteLoss::breaks(from_host, bytes);
  if (when == RemoteLoss::When::at_once) loss_->lose();
  if (when == RemoteLoss::When::when_retired) remote_stream().break_at_events(true);
  Status sent = StreamLane::upload(to_device, from_host, bytes);
  return sent ? drain() : sent;
}

Status RemoteLane::save(void* to_host, const void* from_device, Bytes bytes) {
  Status sent = StreamLane::save(to_host, from_device, bytes);
  return sent ? drain() : sent;
}

Status RemoteLane::mark(std::atomic<uint64_t>& at, uint64_t value) {
  Status sent = StreamLane::mark(at, value);
  return sent ? drain() : sent;
}

Status RemoteLane::wait_for(memory::Event& event) {
  Status waits = StreamLane::wait_for(event);
  return waits ? drain() : waits;
}

}  // namespace laneway::testing
