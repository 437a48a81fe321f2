// GraphIteration: the values of a program's iteration, and the steps by which it runs node by node
// (adaptor/run/graph_program.h): inputs brought to the lane's device, checks, calls, outputs
// brought back. It is kept from one iteration to the next; between them it holds no memory of a
// lane.
//
// Requires: from begin to the end the thread is in a LaneScope, the same one. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adaptor/device/device_lane.h"
#include "adaptor/operators/operator_call.h"
#include "adaptor/run/graph_program.h"
#include "base/result.h"
#include "lanes/graph_runner.h"

namespace laneway::adaptor {

class GraphIteration {
 public:
  // `program` outlives it.
  explicit GraphIteration(const GraphProgram& program);

  // See lanes::GraphRunner::begin. The bytes of `inputs` must stay until the end.
  Status begin(std::span<const lanes::InputView> inputs);
  // Before the first node: inputs that the device cannot reach are copied into the lane's memory.
  // Does nothing when they are there.
  lanes::NodeOutcome send_inputs();
  lanes::NodeOutcome run_node(size_t index);
  // Copies the outputs out, or enqueues that on the lane.
  Status fetch_outputs(std::span<const lanes::OutputView> outputs);
  // Behind the outputs: what the CPU's nodes wrote goes into the image.
  Status flush();
  // The iteration is complete: drops every value.
  void completed();
  // The iteration failed behind its last node: drops every value.
  void failed();
  // The iteration is taken back: drops every value, puts the random state back.
  void abandon();
  // Takes the iteration back to where its inputs were sent, to run its nodes once more.
  void start_again();

  // What failed last. A node's error names node, operator and user line.
  const Error& last_error() const { return last_error_; }
  void fail(size_t node, const std::string& what, ErrorCode code = ErrorCode::failed);

  const GraphProgram& program() const { return program_; }
  std::span<const lanes::InputView> inputs() const { return given_; }
  DeviceLane& lane() { return *lane_; }
  ValueTable& values() { return values_; }
  // Of the job's state, see StateMirror::begin.
  uint64_t epoch() const { return epoch_; }
  // Whether the results of a whole iteration were found as the graph declares them.
  bool verified() const { return verified_; }
  // Whether an output is in the CPU's memory already.
  bool is_here(lanes::ValueIndex output) const;
  // Its elements one after another; stays until the iteration's end. Throws what torch throws.
  const at::Tensor& dense(const at::Tensor& output);

 private:
  Status check_inputs(std::span<const lanes::InputView> inputs) const;
  void take_numbers();
  Status send_input(size_t index);
  lanes::NodeOutcome run_checked(size_t index);
  Status check_before(const GraphProgram::Step& step, uint32_t node) const;
  void run_step(const GraphProgram::Step& step);
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
  uint64_t looked_epoch_ = 0;  // in which stable indices were found right
  bool verified_ = false;
  Error last_error_;
};

}  // namespace laneway::adaptor
