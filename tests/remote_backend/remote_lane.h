// RemoteLane: a StreamLane whose kernels are the CPU's and run when they are called. So what they
// read is waited for, and nothing is overwritten that is still on its way to the client.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "adaptor/device/stream_lane.h"
#include "adaptor/host/cpu_lane_allocator.h"
#include "adaptor/scope/numeric_context.h"
#include "tests/remote_backend/remote_device.h"
#include "tests/remote_backend/remote_loss.h"
#include "tests/remote_backend/remote_stream.h"

namespace laneway::testing {

class RemoteLane final : public adaptor::StreamLane {
 public:
  RemoteLane(RemoteDevice& device, std::unique_ptr<memory::Stream> stream, const Clock& clock);

  void enter(memory::LaneArena& arena, const lanes::NumericContext& context) override;
  void leave() override;
  void suspend() override { numeric_.reset(); }
  void resume(const lanes::NumericContext& context) override { numeric_.emplace(context); }
  uint64_t address_hash() const override { return binding_->address_hash(); }
  Status upload(void* to_device, const void* from_host, Bytes bytes) override;
  // Kernels do not wait for the stream.
  Status save(void* to_host, const void* from_device, Bytes bytes) override;
  Status mark(std::atomic<uint64_t>& at, uint64_t value) override;
  Status wait_for(memory::Event& event) override;
  const RemoteDevice& remote() const { return remote_; }

 private:
  RemoteStream& remote_stream() { return static_cast<RemoteStream&>(stream()); }

  const RemoteDevice& remote_;
  const std::shared_ptr<RemoteLoss> loss_;
  std::optional<adaptor::NumericScope> numeric_;
  std::optional<adaptor::LaneBinding> binding_;
};

}  // namespace laneway::testing
