#include "tests/support/synthetic_runner.h"

#include <cstring>
#include <utility>

namespace laneway::testing {

using lanes::NodeOutcome;

void SyntheticRunner::inject(size_t node, NodeOutcome outcome, int times) {
  injection_ = Injection{node, outcome, times};
}

void SyntheticRunner::at_node(size_t node, std::function<void()> action) {
  action_.emplace(node, std::move(action));
}

void SyntheticRunner::expect(bool condition, const char* what) {
  if (!condition && breach_.empty()) breach_ = what;
}

Status SyntheticRunner::begin(std::span<const lanes::InputView> inputs) {
  expect(!alive_, "begin while an iteration is alive");
  if (refuse_begin_) return Error{ErrorCode::invalid_argument, "input 0 has the wrong size"};
  alive_ = true;
  next_ = 0;
  trail_.clear();
  value_ = inputs.empty() ? 0 : static_cast<uint64_t>(inputs[0].integer);
  saved_random_state_ = random_state_;
  return {};
}

NodeOutcome SyntheticRunner::run_node(size_t index) {
  expect(alive_, "run_node outside an iteration");
  expect(index == next_ && index < nodes_, "run_node out of order");
  if (action_ && action_->first == index) action_->second();
  if (injection_ && injection_->node == index && injection_->times > 0) {
    --injection_->times;
    // A failing operator may already have written; one that found no memory has not.
    if (injection_->outcome == NodeOutcome::failed && index >= first_write_) ++persistent_[0];
    error_ = {ErrorCode::failed, "node " + std::to_string(index) + " was told to fail"};
    return injection_->outcome;
  }
  random_state_ = random_state_ * 6364136223846793005ULL + 1442695040888963407ULL;
  value_ = (value_ ^ random_state_) * 31 + index;
  if (index >= first_write_) persistent_[index % persistent_.size()] += value_;
  trail_.push_back(index);
  ++next_;
  return NodeOutcome::done;
}

Status SyntheticRunner::finish(std::span<const lanes::OutputView> outputs) {
  expect(alive_, "finish outside an iteration");
  expect(next_ == nodes_, "finish before the last node");
  alive_ = false;
  ++finishes_;
  if (fail_finish_) return Error{ErrorCode::invalid_argument, "output 0 has the wrong size"};
  for (const lanes::OutputView& output : outputs) {
    std::memcpy(output.data, &value_, sizeof value_);
  }
  return {};
}

void SyntheticRunner::abandon() {
  expect(alive_, "abandon outside an iteration");
  alive_ = false;
  ++abandons_;
  random_state_ = saved_random_state_;
  error_ = {};
}

}  // namespace laneway::testing
