// GraphIteration: the values of a program's iteration, and the steps by which it runs node by node
// (adaptor/run/graph_program.h): inputs brought to the lane's device, checks, calls, outputs
// brought back. The object serves all iterations of its program; between them it holds no memory of
// a lane.
//
// Requires: from begin to the iteration's end the thread is in one LaneScope. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adaptor/device/device_lane.h"
#include "adaptor/operators/operator_call.h"
#include "adaptor/run/graph_program.h"
#include "base/result.h"
#include "lanes/run/graph_runner.h"

namespace laneway::adaptor {

class GraphIteration {
 public:
  // `program` must outlive the object.
  explicit GraphIteration(const GraphProgram& program);

  // See lanes::GraphRunner::begin. The bytes of `inputs` must stay valid until the iteration's end.
  Status begin(std::span<const lanes::InputView> inputs);
  // Copies inputs that the device cannot reach into the lane's memory. Must be called before the
  // first node; a second call does nothing.
  lanes::NodeOutcome send_inputs();
  lanes::NodeOutcome run_node(size_t index);
  // Copies the outputs to their places, or enqueues these copies on the lane.
  Status fetch_outputs(std::span<const lanes::OutputView> outputs);
  // Writes the state that the CPU's nodes changed into the image. Must be called after
  // fetch_outputs.
  Status flush();
  // Ends a complete iteration: drops every value.
  void completed();
  // Ends an iteration that failed behind its last node: drops every value.
  void failed();
  // Abandons the iteration: drops every value and restores the random state.
  void abandon();
  // Restores the state after send_inputs, so that the iteration's nodes can run once more.
  void start_again();

  // The last error. A node's error names node, operator and user line.
  const Error& last_error() const { return last_error_; }
  void fail(size_t node, const std::string& what, ErrorCode code = ErrorCode::failed);

  const GraphProgram& program() const { return program_; }
  std::span<const lanes::InputView> inputs() const { return given_; }
  DeviceLane& lane() { return *lane_; }
  ValueTable& values() { return values_; }
  // The epoch of the job's state, see StateMirror::begin.
  uint64_t epoch() const { return epoch_; }
  // Whether the results of a whole iteration of an equal graph have been compared with the graph
  // and agreed.
  bool verified() const { return verified_; }
  // Whether the output lies in the CPU's memory already.
  bool is_here(lanes::ValueIndex output) const;
  // The output with its elements one after another; valid until the iteration's end. Throws what
  // torch throws.
  const at::Tensor& dense(const at::Tensor& output);

 private:
  Status check_inputs(std::span<const lanes::InputView> inputs) const;
  void take_numbers();
  Status send_input(size_t index);
  lanes::NodeOutcome run_checked(size_t index);
  Status check_before(const GraphProgram::Step& step, uint32_t node) const;
  void run_step(const GraphProgram::Step& step);
  void run_call(const OperatorCall& call);
  void run_chain(GraphProgram::Chain& chain);
  Status fetch_output(lanes::ValueIndex value, const lanes::OutputView& output);
  void drop_values();

  const GraphProgram& program_;
  std::vector<BorrowedStorage> inputs_;  // the program's, rebound to this iteration's bytes
  ValueTable values_;
  std::vector<GraphProgram::Chain> chains_;
  torch::jit::Stack stack_;
  DeviceLane* lane_ = nullptr;
  std::vector<lanes::InputView> given_;
  bool sent_inputs_ = false;
  std::vector<at::Tensor> sent_;      // the lane's memory under inputs_
  std::vector<at::Tensor> outgoing_;  // dense copies of outputs
  uint64_t epoch_ = 0;
  uint64_t looked_epoch_ = 0;  // the epoch in which stable indices were checked
  bool verified_ = false;
  Error last_error_;
};

}  // namespace laneway::adaptor
