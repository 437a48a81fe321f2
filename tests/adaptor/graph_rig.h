// GraphRig: a graph loaded for real, with an image, a generator and an arena of its own, run node
// by node or as a whole iteration. One a test; everything about the iteration can be looked at.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "adaptor/host/host_lane.h"
#include "adaptor/host/host_random_state.h"
#include "adaptor/host/host_torch_device.h"
#include "adaptor/operators/torch_tensors.h"
#include "adaptor/run/torch_graph_runner.h"
#include "lanes/run/executor.h"
#include "memory/host_pool_access.h"
#include "memory/lane_arena.h"
#include "pipeline/image.h"

namespace laneway::testing {

// Bytes at an address that is a multiple of limits::kHostAlignment.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size);
  std::byte* data() { return data_; }
  size_t size() const { return size_; }
  std::vector<std::byte> copy() const { return {data_, data_ + size_}; }

 private:
  std::vector<std::byte> storage_;
  std::byte* data_;
  size_t size_;
};

class GraphRig {
 public:
  // The graph must load; the image's slots hold small numbers that depend on their place.
  explicit GraphRig(const lanes::Graph& graph, std::span<const lanes::ImageSlot> slots,
                    bool poison = false);
  // Another job with an equal graph, bound to what the other rig's job resolved.
  GraphRig(const GraphRig& equal, std::span<const lanes::ImageSlot> slots);

  adaptor::TorchGraphRunner& runner() { return *runner_; }
  const adaptor::GraphProgram& program() const { return runner_->program(); }
  adaptor::HostRandomState& random() { return random_; }
  const pipeline::ImageLayout& layout() const { return layout_; }
  std::byte* slot(uint32_t index) { return image_->data() + layout_.offset(index).count(); }
  std::vector<std::byte> image() const { return image_->copy(); }
  // Moves the image's bytes to other memory; the old memory is overwritten.
  void move_image();

  // The lane's size from now on.
  void resize_lane(Bytes size);
  memory::LaneArena& arena() { return arena_; }
  // A whole iteration on this thread in a LaneScope, a probe; enters the commit phase unasked.
  lanes::IterationReport run(std::span<const lanes::InputView> inputs,
                             std::span<const lanes::OutputView> outputs);
  // Begins, runs the nodes before `node` and abandons.
  void abandon_at(size_t node, std::span<const lanes::InputView> inputs);
  // What the last iteration used.
  const memory::LaneArena::Use& use() const { return use_; }

 private:
  GraphRig(const lanes::Graph& graph, std::span<const lanes::ImageSlot> slots, bool poison,
           const std::shared_ptr<const adaptor::ResolvedGraph>& resolved);

  pipeline::ImageLayout layout_;
  adaptor::BorrowedStorage storage_;
  std::unique_ptr<AlignedBytes> image_;
  memory::HostPoolAccess access_;
  adaptor::StateMirror mirror_{layout_, {}, access_};
  adaptor::HostRandomState random_;
  adaptor::HostTorchDevice device_;
  adaptor::HostLane device_lane_;
  std::unique_ptr<adaptor::TorchGraphRunner> runner_;
  std::unique_ptr<AlignedBytes> lane_;
  memory::LaneArena arena_;
  memory::LaneArena::Use use_;
};

// A step with everything that makes re-running hard: a product, dropout by bernoulli_ with the
// generator, a loss, and two updates in place at the end, one of which allocates.
lanes::Graph noisy_step();
std::vector<lanes::ImageSlot> noisy_slots();
inline constexpr size_t kNoisyInputs = 2;

// Inputs of noisy_step, and room for its outputs.
class NoisyBatch {
 public:
  explicit NoisyBatch(int number);
  std::span<const lanes::InputView> inputs() const { return inputs_; }
  std::span<const lanes::OutputView> outputs() const { return outputs_; }
  float loss() const { return loss_; }
  const std::vector<float>& x() const { return x_; }
  const std::vector<float>& x_turned() const { return x_turned_; }
  const std::vector<float>& dropped() const { return dropped_; }
  NoisyBatch(const NoisyBatch&) = delete;

 private:
  std::vector<float> x_, x_turned_, dropped_;
  float loss_ = 0;
  std::vector<lanes::InputView> inputs_;
  std::vector<lanes::OutputView> outputs_;
};

}  // namespace laneway::testing
