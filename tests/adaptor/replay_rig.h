// ReplayJob: a graph as a job of a backend, in a lane of its own, whose iterations are planned as a
// worker plans them; and what each of them leaves, byte by byte. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "adaptor/device/backend.h"
#include "adaptor/device/device_job.h"
#include "adaptor/device/limits.h"
#include "lanes/graph/graph.h"
#include "memory/lane_arena.h"

namespace laneway::testing {

// What one iteration leaves.
struct Left {
  std::vector<std::vector<std::byte>> outputs;
  std::vector<std::byte> image;
  std::vector<std::byte> random;
  friend bool operator==(const Left&, const Left&) = default;
};

class ReplayJob {
 public:
  // Before the first replay with everything alike: the probe, those that are counted, the recorded
  // one.
  static constexpr int kBefore = 1 + static_cast<int>(limits::kReplayAfter) + 1;

  static constexpr Bytes kLaneSize = mib(48);  // with room for a workspace of cuBLAS

  // The image's slots hold small numbers that depend on their place.
  ReplayJob(std::unique_ptr<adaptor::Backend> backend, const lanes::Graph& graph,
            const std::vector<lanes::ImageSlot>& slots);

  adaptor::DeviceGraph& graph() { return *graph_; }
  // Another lane over the same memory, as when a region is closed and opened again.
  void change_lane() { lane_ = backend_->make_lane().value(); }

  // Another size of the lane at the same place, at most the one that it has at first.
  void resize_lane(Bytes size) { arena_.bind(pool_->data() + image_bytes().count(), size); }
  // What the plan needs of the lane. Requires: an iteration has run.
  Bytes plan_peak() const { return plan_->plan.peak; }
  // Whether the plan is that of the first iteration still.
  bool is_on_first_plan() const { return plans_ == 1; }
  // The next iteration's allocation of that number does not fit.
  void refuse_allocation(uint64_t index) { arena_.refuse_at(index); }

  // A whole iteration; enters the commit phase unasked.
  Left run(std::span<const lanes::InputView> inputs, std::span<const lanes::OutputView> outputs);
  // Runs the nodes before `node` and gives up.
  void abandon_at(size_t node, std::span<const lanes::InputView> inputs);

 private:
  static Bytes image_bytes();
  std::byte* place(uint32_t slot) const;
  Bytes bytes(uint32_t slot) const;
  void begin();
  void learn(memory::LaneArena::Use use);

  std::unique_ptr<adaptor::Backend> backend_;
  std::unique_ptr<memory::MemoryBlock> pool_;
  std::unique_ptr<adaptor::DeviceLane> lane_;
  memory::LaneArena arena_;
  std::unique_ptr<adaptor::DeviceJob> job_;
  std::unique_ptr<adaptor::DeviceGraph> graph_;
  std::shared_ptr<const memory::PlannedTape> plan_;
  int plans_ = 0;
};

}  // namespace laneway::testing
