#include "adaptor/run/graph_iteration.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "adaptor/checks/result_check.h"
#include "adaptor/host/cpu_lane_allocator.h"
#include "base/check.h"

namespace laneway::adaptor {

using Step = GraphProgram::Step;
using StepKind = GraphProgram::StepKind;

GraphIteration::GraphIteration(const GraphProgram& program)
    : program_(program), values_(program.values), chains_(program.resolved->chains) {
  inputs_.reserve(program.inputs.size());
  for (const BorrowedStorage& input : program.inputs) inputs_.push_back(input.alias());
}

Status GraphIteration::begin(std::span<const lanes::InputView> inputs) {
  if (Status right = check_inputs(inputs); !right) return right;
  lane_ = current_lane();
  LW_CHECK(lane_ != nullptr, "an iteration runs in a LaneScope");
  StateMirror& mirror = program_.job.mirror;
  epoch_ = mirror.begin(&program_);
  if (!program_.placement.host_slots().empty()) {
    if (Status read = mirror.refresh(*lane_); !read) return read;
  }
  given_.assign(inputs.begin(), inputs.end());
  sent_inputs_ = false;
  verified_ = verified_ || program_.resolved->verified;
  take_numbers();
  if (program_.resolved->draws) program_.job.random.mark();
  return {};
}

Status GraphIteration::check_inputs(std::span<const lanes::InputView> inputs) const {
  const lanes::Graph& graph = program_.graph;
  if (inputs.size() != graph.inputs.size()) {
    return Error{ErrorCode::invalid_argument, "graph '" + graph.name + "' takes " +
                                                  std::to_string(graph.inputs.size()) +
                                                  " inputs, got " + std::to_string(inputs.size())};
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const lanes::Value& value = graph.values[graph.inputs[i]];
    if (value.kind == lanes::ValueKind::tensor && inputs[i].bytes != inputs_[i].bytes()) {
      return Error{ErrorCode::invalid_argument,
                   "input " + std::to_string(i) + " of graph '" + graph.name + "' has " +
                       std::to_string(inputs[i].bytes) + " bytes, the graph was captured with " +
                       std::to_string(inputs_[i].bytes()) + "; capture again for this shape"};
    }
  }
  return program_.resolved->index_check->check_inputs(inputs);
}

void GraphIteration::take_numbers() {
  for (size_t i = 0; i < given_.size(); ++i) {
    const lanes::ValueIndex index = program_.graph.inputs[i];
    switch (program_.graph.values[index].kind) {
      case lanes::ValueKind::tensor: break;
      case lanes::ValueKind::real: values_[index] = given_[i].real; break;
      case lanes::ValueKind::integer: values_[index] = given_[i].integer; break;
      case lanes::ValueKind::boolean: values_[index] = given_[i].integer != 0; break;
    }
  }
}

lanes::NodeOutcome GraphIteration::send_inputs() {
  if (sent_inputs_) return lanes::NodeOutcome::done;
  try {
    for (size_t i = 0; i < given_.size(); ++i) {
      if (Status sent = send_input(i); !sent) {
        last_error_ = sent.error();
        return lanes::NodeOutcome::failed;
      }
    }
  } catch (const OutOfLane&) {
    return lanes::NodeOutcome::out_of_lane;
  } catch (const std::exception& error) {
    fail(0, std::string("its inputs cannot be copied: ") + error.what());
    return lanes::NodeOutcome::failed;
  }
  sent_inputs_ = true;
  return lanes::NodeOutcome::done;
}

Status GraphIteration::send_input(size_t index) {
  const lanes::ValueIndex input = program_.graph.inputs[index];
  const uint64_t bytes = inputs_[index].bytes();
  if (program_.graph.values[input].kind != lanes::ValueKind::tensor || bytes == 0) return {};
  if (program_.placement.value_on_host(program_.graph, input)) {
    inputs_[index].rebind(const_cast<void*>(given_[index].data));
    return {};
  }
  const c10::Device device = program_.job.device.device();
  sent_.push_back(at::empty({static_cast<int64_t>(bytes)},
                            at::TensorOptions().dtype(at::kByte).device(device)));
  void* const place = sent_.back().mutable_data_ptr();
  inputs_[index].rebind(place);
  return lane_->upload(place, given_[index].data, Bytes(static_cast<int64_t>(bytes)));
}

lanes::NodeOutcome GraphIteration::run_node(size_t index) {
  if (program_.steps[index].kind == StepKind::done_elsewhere) return lanes::NodeOutcome::done;
  try {
    return run_checked(index);
  } catch (const OutOfLane&) {
    stack_.clear();
    return lanes::NodeOutcome::out_of_lane;
  } catch (const c10::Error& error) {
    fail(index, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(index, error.what());
  }
  stack_.clear();
  return lanes::NodeOutcome::failed;
}

lanes::NodeOutcome GraphIteration::run_checked(size_t index) {
  const Step& step = program_.steps[index];
  if (step.check_operands || step.check_indices) [[unlikely]] {
    if (Status right = check_before(step, static_cast<uint32_t>(index)); !right) {
      fail(index, right.error().message);
      return lanes::NodeOutcome::failed;
    }
  }
  if (step.on_host) [[unlikely]] {
    const OutsideCpuLane outside;
    run_step(step);
  } else {
    run_step(step);
  }
  if (step.enqueues) {
    if (const Status enqueued = lane_->node_enqueued(); !enqueued) [[unlikely]] {
      fail(index, enqueued.error().message, enqueued.error().code);
      return lanes::NodeOutcome::failed;
    }
  }
  if (!verified_ || step.check_results) [[unlikely]] {
    if (Status right = program_.check_node_results(index, values_); !right) {
      const bool laid = right.error().code == ErrorCode::other_layout;
      fail(index, right.error().message, laid ? ErrorCode::other_layout : ErrorCode::failed);
      return lanes::NodeOutcome::failed;
    }
  }
  for (const lanes::ValueIndex value : step.drops) values_[value] = c10::IValue();
  return lanes::NodeOutcome::done;
}

Status GraphIteration::check_before(const Step& step, uint32_t node) const {
  if (step.check_operands) {
    if (Status right = program_.resolved->operand_check->check_node(node, values_); !right)
      return right;
  }
  if (!step.check_indices) return {};
  return program_.resolved->index_check->check_node(node, values_, epoch_ != looked_epoch_);
}

void GraphIteration::run_step(const Step& step) {
  if (step.kind == StepKind::scalar) {
    program_.resolved->scalars[step.index].run(values_);
  } else if (step.kind == StepKind::chain) {
    run_chain(chains_[step.index]);
  } else {
    run_call(program_.calls[step.index]);
  }
}

// A recording replaces what runs node by node, at the addresses of that plan: both must allocate
// the same.
void GraphIteration::run_call(const OperatorCall& call) {
  if (call.allocates_more_recorded() && !lane_->is_recording()) [[unlikely]] {
    const auto kept = call.more_when_recorded(program_.job.device.device());
    call.run(values_, stack_);
  } else {
    call.run(values_, stack_);
  }
}

void GraphIteration::run_chain(GraphProgram::Chain& chain) {
  if (chain.planned.chain.run(values_)) return;
  for (const uint32_t call : chain.calls) program_.calls[call].run(values_, stack_);
}

Status GraphIteration::fetch_outputs(std::span<const lanes::OutputView> outputs) {
  Status done;
  for (size_t i = 0; i < outputs.size() && done; ++i) {
    done = fetch_output(program_.graph.outputs[i], outputs[i]);
  }
  return done;
}

bool GraphIteration::is_here(lanes::ValueIndex output) const {
  const c10::IValue& result = values_[output];
  return !result.isTensor() || !result.toTensor().defined() ||
         program_.placement.value_on_host(program_.graph, output) ||
         result.toTensor().device() != program_.job.device.device();
}

const at::Tensor& GraphIteration::dense(const at::Tensor& output) {
  // A conjugate or negative view has the bytes of what it is a view of.
  const bool as_it_is = output.is_contiguous() && !output.is_conj() && !output.is_neg();
  outgoing_.push_back(
      as_it_is ? output : output.clone(at::MemoryFormat::Contiguous).resolve_conj().resolve_neg());
  return outgoing_.back();
}

Status GraphIteration::fetch_output(lanes::ValueIndex value, const lanes::OutputView& output) {
  const c10::IValue& result = values_[value];
  if (is_here(value)) return copy_out(result, output);
  if (Status fits = check_output_room(result, output.bytes); !fits) return fits;
  try {
    return lane_->download(output.data, dense(result.toTensor()).const_data_ptr(),
                           Bytes(static_cast<int64_t>(output.bytes)));
  } catch (const OutOfLane& error) {
    return Error{
        ErrorCode::out_of_memory,
        std::string("an output that is not dense has no room for its copy: ") + error.what()};
  } catch (const std::exception& error) {
    return Error{ErrorCode::failed, std::string("an output cannot be copied out: ") + error.what()};
  }
}

Status GraphIteration::flush() {
  if (program_.flushed.empty()) return {};
  return program_.job.mirror.flush(*lane_, program_.flushed);
}

void GraphIteration::completed() {
  if (program_.writes_mirror_on_device) program_.job.mirror.written_on_device();
  looked_epoch_ = epoch_;
  if (!verified_) program_.resolved->verified = true;
  verified_ = true;
  drop_values();
}

void GraphIteration::failed() {
  lane_->drop_downloads();
  drop_values();
}

void GraphIteration::abandon() {
  stack_.clear();
  failed();
  if (program_.resolved->draws) program_.job.random.rewind();
}

void GraphIteration::start_again() {
  stack_.clear();
  outgoing_.clear();
  for (const lanes::ValueIndex value : program_.resolved->dynamic) values_[value] = c10::IValue();
  take_numbers();
  if (program_.resolved->draws) program_.job.random.rewind();
}

void GraphIteration::drop_values() {
  for (const lanes::ValueIndex value : program_.resolved->dynamic) values_[value] = c10::IValue();
  for (BorrowedStorage& input : inputs_) input.rebind(nullptr);
  sent_.clear();
  outgoing_.clear();
}

void GraphIteration::fail(size_t node, const std::string& what, ErrorCode code) {
  const lanes::Node& failed = program_.graph.nodes[node];
  last_error_.code = code;
  last_error_.message = "graph '" + program_.graph.name + "', node " + std::to_string(node) + " (" +
                        failed.op + "): " + what +
                        (failed.source.empty() ? "" : "; from " + failed.source);
}

}  // namespace laneway::adaptor
