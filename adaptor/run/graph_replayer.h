// GraphReplayer: records an iteration's device work, or its first part, and runs it again in later
// iterations (adaptor/run/replay.h decides which). Iterations that are neither recorded nor
// replayed pass it by (is_plain).
//
// While an iteration is recorded its nodes run as always, but the work that they enqueue is written
// down. The device does it when the recording is launched: at the end, or at the first node that
// cannot be recorded, from which on everything runs as always. So until then nothing has happened
// to state, and when the device refuses a node or the whole, the iteration is run again from its
// first node, plainly. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adaptor/run/carried_values.h"
#include "adaptor/run/graph_iteration.h"
#include "adaptor/run/replay.h"
#include "base/result.h"
#include "lanes/graph_runner.h"

namespace laneway::adaptor {

class GraphReplayer {
 public:
  // `iteration` and its program outlive it.
  explicit GraphReplayer(GraphIteration& iteration);

  // See TorchGraph.
  void allow(bool allowed) { allowed_ = allowed; }
  uint64_t replayed() const { return replayed_; }

  // Decides how the iteration that has begun is to run.
  void begin() { way_ = control_.begin(key()); }
  // Behind the inputs, before the first node.
  void start();
  bool is_plain() const { return way_ == Way::plain; }
  // A node of an iteration that is recorded or replayed.
  lanes::NodeOutcome run_node(size_t index);
  // Behind the last node: the outputs, of whichever way.
  Status deliver(std::span<const lanes::OutputView> outputs);
  // How the iteration ended.
  void completed();
  void given_up();

 private:
  using Way = ReplayControl::Way;
  struct RecordedOutput {
    const void* address = nullptr;  // in the lane's memory; null: `here`
    c10::IValue here;
    uint64_t bytes = 0;
  };
  struct NumberInput {
    size_t first_use = 0;  // node; beyond the last: none
    std::optional<uint64_t> bits;
    uint32_t changes = 0;  // from iteration to iteration
  };
  struct RecordedPart {
    memory::TapePosition begin;
    memory::TapePosition end;
    CarriedValues carried;
  };

  std::vector<size_t> first_uses() const;
  size_t find_end(const std::vector<size_t>& first_use) const;
  bool is_recordable(size_t node) const;
  void set_end(size_t end);
  bool is_whole() const { return end_ == program_.steps.size(); }
  std::optional<ReplayKey> key();
  void note_numbers();
  // At the first node behind what is recorded: what was recorded happens now.
  lanes::NodeOutcome end_recorded_part();
  // Notes what a replay must leave here; false when that cannot be made again.
  bool note_recorded_part();
  // The device could not record: the same iteration from its first node through `node`, plainly.
  lanes::NodeOutcome run_again_plainly(size_t node);
  // Leaves the iteration plain, with its nodes run, when the device refuses.
  Status finish_recording();
  Status launch_whole(std::span<const lanes::OutputView> outputs);

  GraphIteration& iteration_;
  const GraphProgram& program_;
  std::vector<NumberInput> numbers_;  // by graph input; unused for tensors of the device's
  std::vector<lanes::ValueIndex> may_be_carried_;  // the program's dynamic values without inputs
  size_t end_ = 0;                                 // the nodes before it are recorded and replayed
  bool allowed_ = false;
  ReplayControl control_;
  Way way_ = Way::plain;  // of this iteration
  std::unique_ptr<Recording> recording_;
  RecordedPart part_;       // where recording_ is not of a whole iteration
  bool part_done_ = false;  // in this iteration: the nodes from end_ on run plainly
  std::vector<RecordedOutput> recorded_;
  uint64_t replayed_ = 0;
};

}  // namespace laneway::adaptor
