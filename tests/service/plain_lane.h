// PlainLane: a StreamLane of any device, without what torch has of a lane.
#pragma once

#include <cstdint>

#include "adaptor/device/stream_lane.h"

namespace laneway::testing {

class PlainLane : public adaptor::StreamLane {
 public:
  using StreamLane::StreamLane;
  void enter(memory::LaneArena&, const lanes::NumericContext&) override {}
  void leave() override {}
  void suspend() override {}
  void resume(const lanes::NumericContext&) override {}
  uint64_t address_hash() const override { return 0; }
};

}  // namespace laneway::testing
