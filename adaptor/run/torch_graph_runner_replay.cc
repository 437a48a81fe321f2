// The runner's half for iterations whose device work is recorded and run again
// (adaptor/run/replay.h).
//
// While an iteration is recorded its nodes run as always, but what they enqueue is written down;
// the device does it when the recording is launched: at the end, or at the first node that cannot
// be recorded, from which on everything runs as always. So until then nothing has happened to
// state, and should the device refuse a node or the whole, the iteration is run again from its
// first node, plainly.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "adaptor/checks/result_check.h"
#include "adaptor/run/torch_graph_runner.h"
#include "adaptor/scope/lane_scope.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {

using Way = ReplayControl::Way;

namespace {

// Fewer calls than these are not worth a recording of their own before the rest of an iteration:
// launching it costs about as much as a few of them.
constexpr ptrdiff_t kLeastRecordedCalls = 8;
// A number that changed so often from one iteration to the next is taken for one that always will.
constexpr uint32_t kChangesOfANumber = 2;

}  // namespace

// What runs again must be what would have run: nothing on the CPU that depends on the iteration, no
// result whose shape does, nothing that is looked at in between. The iteration is recorded as far
// as that holds: a step whose optimizer counts on the CPU up to its optimizer.
void TorchGraphRunner::find_replay() {
  size_t end = on_device_ ? steps_.size() : 0;
  const auto stop_at = [&end](std::optional<uint32_t> node) {
    if (node) end = std::min(end, size_t{*node});
  };
  stop_at(index_check_->first_look_every_time());
  stop_at(operand_check_->first_reader_of_contents());
  for (size_t node = 0; node < end; ++node) {
    if (!is_recordable(node)) end = node;
  }
  std::vector<size_t> first_use(graph_.values.size(), steps_.size());
  for (size_t node = steps_.size(); node-- > 0;) {
    lanes::for_each_argument_value(graph_.nodes[node],
                                   [&](lanes::ValueIndex value) { first_use[value] = node; });
  }
  numbers_.resize(graph_.inputs.size());
  for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i].first_use = first_use[graph_.inputs[i]];
  std::vector<bool> is_input(graph_.values.size(), false);
  for (const lanes::ValueIndex input : graph_.inputs) is_input[input] = true;
  for (const lanes::ValueIndex value : dynamic_) {
    if (!is_input[value]) may_be_carried_.push_back(value);
  }
  set_replay_end(end);
}

bool TorchGraphRunner::is_recordable(size_t node) const {
  const Step& step = steps_[node];
  switch (step.kind) {
    case StepKind::done_elsewhere: return true;
    case StepKind::scalar: return !scalars_[step.index].reads_tensor();
    case StepKind::chain: return false;
    case StepKind::call: break;
  }
  // Our own operators read and write the generator's state on the CPU.
  return !step.on_host && !calls_[step.index].shape_depends_on_data() &&
         !graph_.nodes[node].op.starts_with("laneway::");
}

void TorchGraphRunner::set_replay_end(size_t end) {
  const auto calls = std::count_if(steps_.begin(), steps_.begin() + static_cast<ptrdiff_t>(end),
                                   [](const Step& step) { return step.kind == StepKind::call; });
  const ptrdiff_t least = end == steps_.size() ? 1 : kLeastRecordedCalls;
  replay_end_ = calls >= least ? end : 0;
}

// A number that changes again and again (a learning rate's schedule) is left to what runs plainly.
void TorchGraphRunner::note_numbers(std::span<const lanes::InputView> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const lanes::ValueKind kind = graph_.values[graph_.inputs[i]].kind;
    uint64_t bits = 0;
    if (kind == lanes::ValueKind::tensor) {
      // One that stays on the CPU is taken as a number by the device's operators.
      if (!placement_.value_on_host(graph_, graph_.inputs[i])) continue;
      std::memcpy(&bits, inputs[i].data, std::min<size_t>(inputs[i].bytes, sizeof(bits)));
    } else if (kind == lanes::ValueKind::real) {
      std::memcpy(&bits, &inputs[i].real, sizeof(bits));
    } else {
      bits = static_cast<uint64_t>(inputs[i].integer);
    }
    NumberInput& number = numbers_[i];
    if (number.bits && *number.bits != bits && ++number.changes == kChangesOfANumber &&
        number.first_use < replay_end_) {
      set_replay_end(number.first_use);
    }
    number.bits = bits;
  }
}

std::optional<ReplayKey> TorchGraphRunner::replay_key(std::span<const lanes::InputView> inputs) {
  if (replay_end_ == 0 || !replay_allowed_ || !verified_ || replay_.refused()) return std::nullopt;
  note_numbers(inputs);
  const memory::LaneArena* const arena = current_arena();
  ReplayKey key;
  key.end = replay_end_;
  key.plan = arena->followed();
  if (replay_end_ == 0 || key.plan == nullptr || key.plan->plan.peak > arena->capacity()) {
    return std::nullopt;
  }
  if (key.plan->tape.frees.size() != key.plan->tape.allocations.size()) return std::nullopt;
  key.lane = arena->base();
  key.lane_number = current_lane()->number();
  key.image = image_.base();
  key.state_epoch = index_check_->looks_at_stable() ? epoch_ : 0;
  for (const NumberInput& number : numbers_) {
    if (number.bits && number.first_use < replay_end_) key.numbers.push_back(*number.bits);
  }
  return key;
}

void TorchGraphRunner::begin_replay() {
  if (replays_whole() && way_ == Way::replay) return current_arena()->skip_rest();
  const std::optional<memory::TapePosition> here = current_arena()->position();
  if (way_ == Way::replay) {
    if (here != part_.begin) way_ = Way::plain;
    return;
  }
  recording_.reset();
  if (!here) {
    replay_.given_up();
    way_ = Way::plain;
    return;
  }
  part_.begin = *here;
  auto started = device_.start_recording(*current_lane(), random_);
  if (started) {
    recording_ = std::move(started).value();
    return;
  }
  replay_.refuse();
  way_ = Way::plain;
}

bool TorchGraphRunner::note_recorded_part() {
  const std::optional<memory::TapePosition> here = current_arena()->position();
  if (!here) return false;
  auto carried =
      CarriedValues::note(may_be_carried_, values_, *current_arena(),
                          [this](const at::Tensor& tensor) { return is_borrowed(tensor); });
  if (!carried) return false;
  part_.end = *here;
  part_.carried = std::move(*carried);
  return true;
}

lanes::NodeOutcome TorchGraphRunner::end_recorded_part() {
  bool may_run_again = true;
  if (way_ == Way::record) {
    may_run_again = note_recorded_part();
    if (!recording_->end()) return run_again_plainly(replay_end_ - 1);
  }
  Status done = recording_->launch();
  if (done) done = current_lane()->node_enqueued();
  if (!done) {
    fail(replay_end_, done.error().message, done.error().code);
    return lanes::NodeOutcome::failed;
  }
  if (way_ == Way::replay) {
    current_arena()->skip_to(part_.end);
    part_.carried.restore(values_);
  }
  part_done_ = true;
  if (!may_run_again) {
    recording_.reset();
    replay_.refuse();
    way_ = Way::plain;
  }
  return lanes::NodeOutcome::done;
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
