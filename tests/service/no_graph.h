// NoGraph: a DeviceGraph for tests that ask one question of it. Everything else ends the test.
#pragma once

#include <cstdlib>

#include "adaptor/device/device_graph.h"

namespace laneway::testing {

class NoGraph : public adaptor::DeviceGraph {
 public:
  const lanes::Graph& graph() const override { std::abort(); }
  const lanes::GraphMemory& memory() const override { std::abort(); }
  adaptor::ProgramHandle program() const override { std::abort(); }
  Bytes probe_need() const override { std::abort(); }
  uint32_t threads() const override { std::abort(); }
  bool draws() const override { std::abort(); }
  lanes::GraphRunner& runner() override { std::abort(); }
  void allow_replay(bool /*allowed*/) override { std::abort(); }
  void allow_existing_recordings() override { std::abort(); }
  uint64_t replayed() const override { std::abort(); }
  const adaptor::Recordings& recordings() const override { std::abort(); }
};

}  // namespace laneway::testing
