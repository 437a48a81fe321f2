// HostLane: a lane of the CPU. Work is complete when a call returns, so copies are plain ones and
// iterations are complete when they are enqueued.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "adaptor/device/device_lane.h"
#include "adaptor/host/cpu_lane_allocator.h"
#include "adaptor/scope/numeric_context.h"

namespace laneway::adaptor {

class HostLane final : public DeviceLane {
 public:
  HostLane();

  void enter(memory::LaneArena& arena, const lanes::NumericContext& context) override;
  void leave() override;
  void suspend() override { bound_->numeric.reset(); }
  void resume(const lanes::NumericContext& context) override { bound_->numeric.emplace(context); }
  uint64_t address_hash() const override { return bound_->binding.address_hash(); }
  Status upload(void* to_device, const void* from_host, Bytes bytes) override;
  Status download(void* to_host, const void* from_device, Bytes bytes) override;
  Status node_enqueued() override { return {}; }
  Status recording_launched() override { return {}; }
  std::unique_ptr<lanes::EnqueuedIteration> enqueue() override;
  void drop_downloads() override {}
  Status drain() override { return {}; }

 private:
  struct Bound {
    Bound(memory::LaneArena& arena, const lanes::NumericContext& context)
        : numeric(std::in_place, context), binding(arena) {}
    std::optional<NumericScope> numeric;
    LaneBinding binding;
  };
  std::optional<Bound> bound_;  // set between enter and leave
};

}  // namespace laneway::adaptor
