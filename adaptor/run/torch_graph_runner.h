// TorchGraphRunner: runs a graph's nodes through torch's dispatcher (lanes/graph_runner.h). Made
// once per graph of a job: every operator resolved and checked against its schema, persistent
// tensors and inputs as views of borrowed storages, views of those evaluated once and for all. It
// expects the executing thread to stand in a NumericScope and a LaneBinding; it does not know about
// lanes itself. Driven by one thread at a time.
//
// On a device that is not the host it expects a LaneScope: inputs are copied into the lane's memory
// before the first node, outputs come back with an enqueued iteration, and nodes that are the CPU's
// (adaptor/run/placement.h) run on this thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adaptor/chains/chain_planner.h"
#include "adaptor/checks/index_check.h"
#include "adaptor/checks/operand_check.h"
#include "adaptor/device/torch_device.h"
#include "adaptor/operators/operator_call.h"
#include "adaptor/operators/scalar_call.h"
#include "adaptor/operators/torch_tensors.h"
#include "adaptor/run/carried_values.h"
#include "adaptor/run/placement.h"
#include "adaptor/run/replay.h"
#include "adaptor/run/state_mirror.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/graph_runner.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

// What a runner uses of its job; all of it outlives the runner.
struct JobParts {
  const TorchDevice& device;
  const pipeline::ImageLayout& layout;
  const BorrowedStorage& image;
  RandomState& random;
  StateMirror* mirror = nullptr;  // of the CPU's part of the state; null on the host
};

class TorchGraphRunner final : public lanes::GraphRunner {
 public:
  // `graph` has passed graph_check against the image's slots. invalid_graph names node, operator
  // and user line.
  static Result<std::unique_ptr<TorchGraphRunner>> load(lanes::Graph graph, const JobParts& job);

  size_t node_count() const override { return graph_.nodes.size(); }
  size_t first_write() const override { return graph_.first_write; }
  Status begin(std::span<const lanes::InputView> inputs) override;
  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;
  std::unique_ptr<lanes::EnqueuedIteration> take_enqueued() override {
    return std::move(enqueued_);
  }
  void abandon() override;
  const Error& last_error() const override { return last_error_; }

  const lanes::Graph& graph() const { return graph_; }
  // Whether an iteration changes the job's random state.
  bool draws() const { return draws_; }
  // See TorchGraph.
  void allow_replay(bool allowed) { replay_allowed_ = allowed; }
  uint64_t replayed() const { return replayed_; }
  // How many steps run in an iteration (views were evaluated at load, chains are one).
  size_t live_node_count() const;

 private:
  // Nodes of a chain but its last are done elsewhere, like those that were evaluated at load.
  enum class StepKind : uint8_t { call, scalar, chain, done_elsewhere };
  struct Step {
    StepKind kind = StepKind::done_elsewhere;
    bool check_operands = false;           // before it runs, see OperandCheck::check_node
    bool check_indices = false;            // before it runs, see IndexCheck::check_node
    bool check_results = false;            // in every iteration, not in the first only
    bool on_host = false;                  // of a node with tensors, where that is not the device
    uint32_t index = 0;                    // into calls_ or scalars_
    std::vector<lanes::ValueIndex> drops;  // values nobody needs behind this node
  };

  TorchGraphRunner(lanes::Graph graph, const JobParts& job);

  Status make_static_values();
  Status resolve_nodes();
  // Evaluates a view of static values now; false when its result is not a view after all.
  // invalid_graph when it is another one than the graph declares.
  Result<bool> evaluate_at_load(const OperatorCall& call, size_t index);
  // Whether it lies in the image or in an input.
  bool is_borrowed(const at::Tensor& tensor) const;
  Status check_borrowed(lanes::ValueIndex value) const;
  Status check_is_new(const lanes::Node& node) const;
  Status check_layouts(size_t index) const;
  Status find_checks();
  Result<IndexCheck> make_index_check() const;
  void find_replay();
  bool is_recordable(size_t node) const;
  void set_replay_end(size_t end);
  void find_mirror_writes();
  void find_last_uses();
  void find_chains();
  void run_chain(uint32_t index);
  // On a device that is not the host, from here to the next comment.
  Status begin_on_device(std::span<const lanes::InputView> inputs);
  // Before the first node: the inputs, into the lane's memory.
  lanes::NodeOutcome send_inputs();
  // False when the device failed, which last_error says.
  bool run_step_on_device(const Step& step, size_t index);
  void run_step(const Step& step);
  void abandon_on_device();
  Status finish_on_device(std::span<const lanes::OutputView> outputs);
  Status fetch_outputs(std::span<const lanes::OutputView> outputs);
  Status fetch_output(lanes::ValueIndex value, const lanes::OutputView& output);
  // Whether an output is in the CPU's memory already.
  bool is_here(lanes::ValueIndex output) const;
  // Its elements one after another; stays until the iteration's end.
  const at::Tensor& dense(const at::Tensor& output);
  // Iterations that are recorded and replayed, whole or up to replay_end_.
  std::optional<ReplayKey> replay_key(std::span<const lanes::InputView> inputs);
  void note_numbers(std::span<const lanes::InputView> inputs);
  void begin_replay();
  bool replays_whole() const { return replay_end_ == steps_.size(); }
  // At the first node behind what is recorded: what was recorded happens now.
  lanes::NodeOutcome end_recorded_part();
  // Notes what a replay must leave here; false when that cannot be made again.
  bool note_recorded_part();
  // The device could not record: the same iteration from its first node through `node`, plainly.
  lanes::NodeOutcome run_again_plainly(size_t node);
  Status finish_recording();
  Status finish_replay(std::span<const lanes::OutputView> outputs);
  bool look_at_stable() const { return !on_device_ || epoch_ != looked_epoch_; }
  // Where a node's tensors lie.
  c10::Device device_of(size_t node) const;

  lanes::NodeOutcome run_caught(size_t index);
  lanes::NodeOutcome run_checked(size_t index);
  void take_numbers(std::span<const lanes::InputView> inputs);
  void drop_values();
  void fail(size_t index, const std::string& what, ErrorCode code = ErrorCode::failed);

  lanes::Graph graph_;
  const TorchDevice& device_;
  const bool on_device_;  // that is not the host
  const pipeline::ImageLayout& layout_;
  const BorrowedStorage& image_;
  RandomState& random_;
  StateMirror* const mirror_;
  const Placement placement_;
  bool draws_ = false;
  bool verified_ = false;      // a whole iteration's results had the shapes that the graph declares
  std::vector<bool> strided_;  // see strided_storages
  std::vector<BorrowedStorage> inputs_;  // by graph input; numbers have an empty one
  ValueTable values_;
  StaticValues is_static_;
  std::vector<lanes::ValueIndex> dynamic_;  // the others
  std::optional<IndexCheck> index_check_;
  std::optional<OperandCheck> operand_check_;
  std::vector<OperatorCall> calls_;
  std::vector<ScalarCall> scalars_;
  struct Chain {
    PlannedChain planned;
    std::vector<uint32_t> calls;  // its nodes one by one, for when the layouts are not as declared
  };
  std::vector<Chain> chains_;
  std::vector<uint32_t> runs_at_;  // by node: where it really runs, its own place but for chains
  std::vector<Step> steps_;
  torch::jit::Stack stack_;
  Error last_error_;
  // Of an iteration on a device that is not the host.
  std::vector<lanes::InputView> given_;  // its inputs
  bool sent_inputs_ = false;
  std::vector<at::Tensor> sent_;             // the lane's memory under inputs_
  std::vector<at::Tensor> outgoing_;         // dense copies of outputs
  std::vector<StateMirror::Piece> flushed_;  // at its end: what the CPU may have written
  bool writes_mirror_on_device_ = false;     // slots that other graphs use on the CPU
  uint64_t epoch_ = 0;                       // of the state, see StateMirror::begin
  uint64_t looked_epoch_ = 0;                // in which stable indices were found right
  std::unique_ptr<lanes::EnqueuedIteration> enqueued_;
  // Of recording and replaying.
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
  size_t replay_end_ = 0;             // what lies before this node is recorded and replayed
  std::vector<NumberInput> numbers_;  // by graph input; of the device's tensors unused
  std::vector<lanes::ValueIndex> may_be_carried_;  // dynamic_ without inputs
  bool replay_allowed_ = false;
  ReplayControl replay_;
  ReplayControl::Way way_ = ReplayControl::Way::plain;  // of this iteration
  std::unique_ptr<Recording> recording_;
  RecordedPart part_;       // where recording_ is not of a whole iteration
  bool part_done_ = false;  // in this iteration: the nodes from replay_end_ on run plainly
  std::vector<RecordedOutput> recorded_;
  uint64_t replayed_ = 0;
};

}  // namespace laneway::adaptor
