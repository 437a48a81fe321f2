// GraphReplayer: records an iteration's device work, or its first part, and runs it again in later
// iterations (adaptor/run/replay.h decides which). Iterations that are neither recorded nor
// replayed do not use it (is_plain).
//
// While an iteration is recorded its nodes run as always, but the work that they enqueue is
// recorded instead of run. The device runs it when the recording is launched: at the end, or at the
// first node that cannot be recorded; from that node on the iteration runs as always. Until the
// launch no state has changed, so when the device refuses a node, the whole recording or its
// launch, the iteration runs again from its first node, without recording. The same happens when a
// recorded node allocates otherwise than the plan that later iterations follow, or finds no room:
// the lane is not to blame. The graph is then not recorded again, unless the recording was spoilt
// by another thread. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adaptor/device/device_graph.h"
#include "adaptor/run/carried_values.h"
#include "adaptor/run/graph_iteration.h"
#include "adaptor/run/replay.h"
#include "base/result.h"
#include "lanes/run/graph_runner.h"

namespace laneway::adaptor {

// What an iteration may do with recordings.
enum class Replaying : uint8_t {
  off,       // nothing: it runs node by node, and says nothing of others
  existing,  // be replayed; else as off
  on,        // be replayed, or recorded
};

class GraphReplayer {
 public:
  // `iteration` and its program must outlive the object.
  explicit GraphReplayer(GraphIteration& iteration);

  // From the next iteration on; off until the first call.
  void allow(Replaying allowed) { allowed_ = allowed; }
  // See DeviceGraph::replays, replayed and recordings.
  bool replays() const { return way_ == Way::replay; }
  uint64_t replayed() const { return replayed_; }
  const Recordings& recordings() const { return recordings_; }

  // Decides how the iteration that has begun will run.
  void begin();
  // Must be called after the inputs were sent, before the first node.
  void start();
  bool is_plain() const { return way_ == Way::plain; }
  // Runs a node of an iteration that is recorded or replayed.
  lanes::NodeOutcome run_node(size_t index);
  // Delivers the outputs of any iteration. Must be called after the last node.
  Status deliver(std::span<const lanes::OutputView> outputs);
  // The iteration was completed, or abandoned.
  void completed();
  void given_up();

 private:
  using Way = ReplayControl::Way;
  struct RecordedOutput {
    const void* address = nullptr;  // in the lane's memory; null: the output is `here`
    c10::IValue here;
    uint64_t bytes = 0;
  };
  struct NumberInput {
    size_t first_use = 0;  // the first node that uses it; beyond the last node: none
    std::optional<uint64_t> bits;
    uint32_t changes = 0;  // how often the number changed between iterations
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
  // Called at the first node behind the recorded part: launches the recording.
  lanes::NodeOutcome end_recorded_part();
  // Notes the values that a replay must leave; false when they cannot be made again.
  bool note_recorded_part();
  // The graph is not recorded again, and why is told.
  void refuse(std::string why);
  // The recording came to nothing: the graph is recorded again later if another thread spoilt it,
  // else refused.
  void give_recording_up(std::string why);
  // The same, and nothing was enqueued: the same iteration runs from its first node through `node`
  // without recording.
  lanes::NodeOutcome run_again_plainly(size_t node, std::string why);
  // Why the recorded iteration cannot stand for later ones after `node`; empty if it can.
  std::string fault_of_recorded(size_t node, lanes::NodeOutcome outcome);
  // Notes where the outputs of a recorded iteration lie. Throws what torch throws.
  void note_outputs();
  // Whether the whole iteration, recorded, allocated what its plan has.
  static bool met_its_plan();
  // Ends the recording of a whole iteration; why it cannot be launched, or empty.
  std::string fault_of_whole();
  Status run_all_again(std::string why);
  // Delivers the outputs of a whole iteration whose recording was launched.
  Status deliver_recorded(std::span<const lanes::OutputView> outputs);

  GraphIteration& iteration_;
  const GraphProgram& program_;
  std::vector<NumberInput> numbers_;  // by graph input; unused for tensors on the device
  std::vector<lanes::ValueIndex> may_be_carried_;  // the program's dynamic values without inputs
  size_t end_ = 0;                                 // the nodes before it are recorded and replayed
  Replaying allowed_ = Replaying::off;
  ReplayControl control_;
  Way way_ = Way::plain;  // how this iteration runs
  std::unique_ptr<Recording> recording_;
  RecordedPart part_;       // of a whole iteration only its begin
  bool part_done_ = false;  // in this iteration the nodes from end_ on run as always
  std::vector<RecordedOutput> recorded_;
  uint64_t replayed_ = 0;
  Recordings recordings_;
};

}  // namespace laneway::adaptor
