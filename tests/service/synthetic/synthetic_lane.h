// SyntheticLane: a lane whose work is done when it is called. Between enter and leave, allocate
// gives memory of the lane's arena to the thread that entered. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "adaptor/device/device_lane.h"

namespace laneway::testing {

class SyntheticLane final : public adaptor::DeviceLane {
 public:
  // The lane that this thread has entered, also where another lane is wrapped around it.
  // Requires: there is one.
  static SyntheticLane& current();

  // Null when it does not fit the lane.
  std::byte* allocate(uint64_t bytes);
  void free(std::byte* memory);

  void enter(memory::LaneArena& arena, const lanes::NumericContext& context) override;
  void leave() override;
  void suspend() override {}
  void resume(const lanes::NumericContext& /*context*/) override {}
  uint64_t address_hash() const override { return hash_; }
  Status upload(void* to_device, const void* from_host, Bytes bytes) override;
  Status download(void* to_host, const void* from_device, Bytes bytes) override;
  Status node_enqueued() override { return {}; }
  Status recording_launched() override { return {}; }
  // Complete already.
  std::unique_ptr<lanes::EnqueuedIteration> enqueue() override;
  void drop_downloads() override {}
  Status drain() override { return {}; }

 private:
  memory::LaneArena* arena_ = nullptr;  // between enter and leave
  uint64_t hash_ = 0;
};

}  // namespace laneway::testing
