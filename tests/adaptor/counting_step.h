// A step of which only the first part can be recorded: its rate is multiplied by a counter that the
// CPU has. With draws, two views of one memory, and results of the first part among the outputs.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "lanes/graph/graph.h"
#include "lanes/run/graph_runner.h"
#include "pipeline/image.h"
#include "tests/adaptor/graph_rig.h"

namespace laneway::testing {

struct CountingForm {
  const char* name;
  bool counts = true;         // else the rate is as it comes, and the CPU has nothing to do
  bool writes_early = false;  // the first write is in the part that can be recorded
};

lanes::Graph counting_step(const CountingForm& form);
std::vector<lanes::ImageSlot> counting_slots(const CountingForm& form);

// Inputs of counting_step, and room for its outputs.
class CountingBatch {
 public:
  CountingBatch(int number, double rate);
  CountingBatch(const CountingBatch&) = delete;
  CountingBatch& operator=(const CountingBatch&) = delete;
  std::span<const lanes::InputView> inputs() const { return inputs_; }
  std::span<const lanes::OutputView> outputs() const { return outputs_; }

 private:
  NoisyBatch noisy_;
  float norm_ = 0;
  std::array<float, 12> moved_{};
  std::vector<lanes::InputView> inputs_;
  std::vector<lanes::OutputView> outputs_;
};

}  // namespace laneway::testing
