// The runner's half for iterations whose device work is recorded and run again (adaptor/replay.h).
//
// While an iteration is recorded its nodes run as always, but what they enqueue is written down;
// the device does it when the recording is launched, at the end. So until then nothing has happened
// to state, and should the device refuse a node or the whole, the iteration is run again from its
// first node, plainly.
#include <ATen/core/Tensor.h>

#include <cstring>
#include <utility>

#include "adaptor/lane_scope.h"
#include "adaptor/result_check.h"
#include "adaptor/torch_graph_runner.h"

namespace laneway::adaptor {

using Way = ReplayControl::Way;

// What runs again must be what would have run: nothing on the CPU that depends on the iteration, no
// result whose shape does, nothing that is looked at in between.
void TorchGraphRunner::find_replay() {
  bool work = false;
  bool recordable = on_device_ && !placement_.any_host_nodes() &&
                    !index_check_->looks_every_time() && !operand_check_->reads_contents();
  for (size_t node = 0; node < steps_.size() && recordable; ++node) {
    const Step& step = steps_[node];
    if (step.kind == StepKind::scalar) recordable = !scalars_[step.index].reads_tensor();
    if (step.kind != StepKind::call) continue;
    work = true;
    // Our own operators read and write the generator's state on the CPU.
    recordable = !calls_[step.index].shape_depends_on_data() &&
                 !graph_.nodes[node].op.starts_with("laneway::");
  }
  may_replay_ = recordable && work;
}

std::optional<ReplayKey> TorchGraphRunner::replay_key(
    std::span<const lanes::InputView> inputs) const {
  if (!may_replay_ || !replay_allowed_ || !verified_) return std::nullopt;
  const memory::LaneArena* const arena = current_arena();
  ReplayKey key;
  key.plan = arena->followed();
  if (key.plan == nullptr || key.plan->plan.peak > arena->capacity()) return std::nullopt;
  if (key.plan->tape.frees.size() != key.plan->tape.allocations.size()) return std::nullopt;
  key.lane = arena->base();
  key.image = image_.base();
  key.state_epoch = index_check_->looks_at_stable() ? epoch_ : 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const lanes::ValueKind kind = graph_.values[graph_.inputs[i]].kind;
    if (kind == lanes::ValueKind::tensor) continue;
    uint64_t bits = 0;
    if (kind == lanes::ValueKind::real) {
      std::memcpy(&bits, &inputs[i].real, sizeof(bits));
    } else {
      bits = static_cast<uint64_t>(inputs[i].integer);
    }
    key.numbers.push_back(bits);
  }
  return key;
}

void TorchGraphRunner::begin_replay() {
  if (way_ == Way::replay) return current_arena()->skip_rest();
  recording_.reset();
  auto started = device_.start_recording(*current_lane(), random_);
  if (started) {
    recording_ = std::move(started).value();
    return;
  }
  replay_.refuse();
  way_ = Way::plain;
}

lanes::NodeOutcome TorchGraphRunner::run_again_plainly(size_t node) {
  recording_.reset();
  replay_.refuse();
  way_ = Way::plain;
  stack_.clear();
  outgoing_.clear();
  for (const lanes::ValueIndex value : dynamic_) values_[value] = c10::IValue();
  take_numbers(given_);
  if (draws_) random_.rewind();
  for (size_t before = 0; before <= node; ++before) {
    if (const auto outcome = run_node(before); outcome != lanes::NodeOutcome::done) return outcome;
  }
  return lanes::NodeOutcome::done;
}

// Leaves the iteration plain, with its nodes run, when the device refuses.
Status TorchGraphRunner::finish_recording() {
  recorded_.clear();
  try {
    for (const lanes::ValueIndex output : graph_.outputs) {
      if (is_here(output)) {
        recorded_.push_back({nullptr, values_[output], 0});
        continue;
      }
      const at::Tensor& tensor = dense(values_[output].toTensor());
      recorded_.push_back({tensor.const_data_ptr(), c10::IValue(), tensor.nbytes()});
    }
    if (recording_->end()) return {};
  } catch (const std::exception&) {
    // The iteration runs plainly, and says then what is wrong, if anything is.
  }
  recorded_.clear();
  switch (run_again_plainly(graph_.nodes.size() - 1)) {
    case lanes::NodeOutcome::done: return {};
    case lanes::NodeOutcome::out_of_lane:
      return Error{ErrorCode::out_of_memory,
                   "graph '" + graph_.name +
                       "' was recorded, which its device refused at the end, and does not fit its "
                       "lane when it runs again: turn replay off for the job"};
    case lanes::NodeOutcome::failed: break;
  }
  return last_error_;
}

Status TorchGraphRunner::finish_replay(std::span<const lanes::OutputView> outputs) {
  DeviceLane& lane = *current_lane();
  if (Status launched = recording_->launch(); !launched) return launched;
  if (Status marked = lane.node_enqueued(); !marked) return marked;
  for (size_t i = 0; i < recorded_.size(); ++i) {
    const RecordedOutput& output = recorded_[i];
    Status fetched;
    if (output.address == nullptr) {
      fetched = copy_out(output.here, outputs[i]);
    } else if (outputs[i].bytes == output.bytes) {
      fetched =
          lane.download(outputs[i].data, output.address, Bytes(static_cast<int64_t>(output.bytes)));
    } else {
      fetched = wrong_output_room(output.bytes, outputs[i].bytes);
    }
    if (!fetched) return fetched;
  }
  return {};
}

}  // namespace laneway::adaptor
