#include "adaptor/run/torch_graph_runner.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "adaptor/checks/result_check.h"
#include "adaptor/host/cpu_lane_allocator.h"

namespace laneway::adaptor {

void TorchGraphRunner::run_chain(uint32_t index) {
  Chain& chain = chains_[index];
  if (chain.planned.chain.run(values_)) return;
  for (const uint32_t call : chain.calls) calls_[call].run(values_, stack_);
}

size_t TorchGraphRunner::live_node_count() const {
  return static_cast<size_t>(std::count_if(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.kind != StepKind::done_elsewhere;
  }));
}

Status TorchGraphRunner::begin(std::span<const lanes::InputView> inputs) {
  if (inputs.size() != graph_.inputs.size()) {
    return Error{ErrorCode::invalid_argument, "graph '" + graph_.name + "' takes " +
                                                  std::to_string(graph_.inputs.size()) +
                                                  " inputs, got " + std::to_string(inputs.size())};
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const lanes::Value& value = graph_.values[graph_.inputs[i]];
    if (value.kind == lanes::ValueKind::tensor && inputs[i].bytes != inputs_[i].bytes()) {
      return Error{ErrorCode::invalid_argument,
                   "input " + std::to_string(i) + " of graph '" + graph_.name + "' has " +
                       std::to_string(inputs[i].bytes) + " bytes, the graph was captured with " +
                       std::to_string(inputs_[i].bytes()) + "; capture again for this shape"};
    }
  }
  if (Status in_range = index_check_->check_inputs(inputs); !in_range) return in_range;
  if (on_device_) {
    if (Status begun = begin_on_device(inputs); !begun) return begun;
  }
  if (!on_device_) {
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[i].rebind(const_cast<void*>(inputs[i].data));
  }
  take_numbers(inputs);
  if (draws_) random_.mark();
  return {};
}

void TorchGraphRunner::take_numbers(std::span<const lanes::InputView> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const lanes::ValueIndex index = graph_.inputs[i];
    switch (graph_.values[index].kind) {
      case lanes::ValueKind::tensor: break;
      case lanes::ValueKind::real: values_[index] = inputs[i].real; break;
      case lanes::ValueKind::integer: values_[index] = inputs[i].integer; break;
      case lanes::ValueKind::boolean: values_[index] = inputs[i].integer != 0; break;
    }
  }
}

lanes::NodeOutcome TorchGraphRunner::run_node(size_t index) {
  if (on_device_) [[unlikely]] {
    if (index == 0) {
      if (const auto sent = send_inputs(); sent != lanes::NodeOutcome::done) return sent;
    }
    if (way_ != ReplayControl::Way::plain && !part_done_) {
      if (index >= replay_end_) {
        if (const auto ended = end_recorded_part(); ended != lanes::NodeOutcome::done) return ended;
      } else if (way_ == ReplayControl::Way::replay) {
        return lanes::NodeOutcome::done;
      }
    }
  }
  if (steps_[index].kind == StepKind::done_elsewhere) return lanes::NodeOutcome::done;
  const lanes::NodeOutcome outcome = run_caught(index);
  const bool recorded = way_ == ReplayControl::Way::record && !part_done_;
  if (outcome == lanes::NodeOutcome::failed && recorded) [[unlikely]] {
    return run_again_plainly(index);
  }
  return outcome;
}

lanes::NodeOutcome TorchGraphRunner::run_caught(size_t index) {
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

lanes::NodeOutcome TorchGraphRunner::run_checked(size_t index) {
  const Step& step = steps_[index];
  const auto refused = [&](const Status& status) {
    fail(index, status.error().message);
    return lanes::NodeOutcome::failed;
  };
  const auto node = static_cast<uint32_t>(index);
  if (step.check_operands) [[unlikely]] {
    if (Status right = operand_check_->check_node(node, values_); !right) return refused(right);
  }
  if (step.check_indices) [[unlikely]] {
    Status right = index_check_->check_node(node, values_, look_at_stable());
    if (!right) return refused(right);
  }
  if (on_device_) [[unlikely]] {
    if (!run_step_on_device(step, index)) return lanes::NodeOutcome::failed;
  } else {
    run_step(step);
  }
  if (!verified_ || step.check_results) [[unlikely]] {
    Status right =
        check_results(graph_, graph_.nodes[index], values_, step.drops, device_of(index));
    if (right) right = check_is_new(graph_.nodes[index]);
    if (!right) return refused(right);
    if (Status laid = check_layouts(index); !laid) {
      fail(index, laid.error().message, laid.error().code);
      return lanes::NodeOutcome::failed;
    }
  }
  for (const lanes::ValueIndex value : step.drops) values_[value] = c10::IValue();
  return lanes::NodeOutcome::done;
}

void TorchGraphRunner::run_step(const Step& step) {
  if (step.kind == StepKind::scalar) {
    scalars_[step.index].run(values_);
  } else if (step.kind == StepKind::chain) {
    run_chain(step.index);
  } else {
    calls_[step.index].run(values_, stack_);
  }
}

Status TorchGraphRunner::finish(std::span<const lanes::OutputView> outputs) {
  Status copied;
  if (outputs.size() != graph_.outputs.size()) {
    copied = Error{ErrorCode::invalid_argument,
                   "graph '" + graph_.name + "' has " + std::to_string(graph_.outputs.size()) +
                       " outputs, room was given for " + std::to_string(outputs.size())};
  }
  if (copied && on_device_) {
    copied = finish_on_device(outputs);
  } else {
    for (size_t i = 0; i < graph_.outputs.size() && copied; ++i) {
      copied = copy_out(values_[graph_.outputs[i]], outputs[i]);
    }
  }
  drop_values();
  verified_ = verified_ || copied.ok();
  return copied;
}

void TorchGraphRunner::abandon() {
  stack_.clear();
  drop_values();
  if (on_device_) abandon_on_device();
  if (draws_) random_.rewind();
}

void TorchGraphRunner::drop_values() {
  for (const lanes::ValueIndex value : dynamic_) values_[value] = c10::IValue();
  for (BorrowedStorage& input : inputs_) input.rebind(nullptr);
  sent_.clear();
  outgoing_.clear();
}

void TorchGraphRunner::fail(size_t index, const std::string& what, ErrorCode code) {
  const lanes::Node& node = graph_.nodes[index];
  last_error_.code = code;
  last_error_.message = "graph '" + graph_.name + "', node " + std::to_string(index) + " (" +
                        node.op + "): " + what +
                        (node.source.empty() ? "" : "; from " + node.source);
}

}  // namespace laneway::adaptor
