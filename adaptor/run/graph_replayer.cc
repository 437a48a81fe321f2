#include "adaptor/run/graph_replayer.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "adaptor/checks/result_check.h"
#include "adaptor/device/limits.h"
#include "adaptor/scope/lane_scope.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/room_error.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {

using StepKind = GraphProgram::StepKind;

namespace {

// Fewer calls than these are not worth a recording of their own before the rest of an iteration:
// launching it costs about as much as a few of them.
constexpr ptrdiff_t kLeastRecordedCalls = 8;
// A number that changed so often from one iteration to the next is taken for one that always will.
constexpr uint32_t kChangesOfANumber = 2;

}  // namespace

GraphReplayer::GraphReplayer(GraphIteration& iteration)
    : iteration_(iteration), program_(iteration.program()) {
  const std::vector<size_t> first_use = first_uses();
  const lanes::Graph& graph = program_.graph;
  std::vector<bool> is_input(graph.values.size(), false);
  for (const lanes::ValueIndex input : graph.inputs) {
    numbers_.emplace_back().first_use = first_use[input];
    is_input[input] = true;
  }
  for (const lanes::ValueIndex value : program_.resolved->dynamic) {
    if (!is_input[value]) may_be_carried_.push_back(value);
  }
  set_end(find_end(first_use));
}

std::vector<size_t> GraphReplayer::first_uses() const {
  std::vector<size_t> first_use(program_.graph.values.size(), program_.steps.size());
  for (size_t node = program_.steps.size(); node-- > 0;) {
    lanes::for_each_argument_value(program_.graph.nodes[node],
                                   [&](lanes::ValueIndex value) { first_use[value] = node; });
  }
  return first_use;
}

// A replay must do what the nodes would have done: nothing on the CPU that depends on the
// iteration, no result whose shape does, no look at contents in between. The iteration is recorded
// as far as that holds: a step whose optimizer counts on the CPU up to its optimizer.
size_t GraphReplayer::find_end(const std::vector<size_t>& first_use) const {
  size_t end = program_.steps.size();
  const auto stop_at = [&end](std::optional<uint32_t> node) {
    if (node) end = std::min(end, size_t{*node});
  };
  stop_at(program_.resolved->index_check->first_look_every_time());
  stop_at(program_.resolved->operand_check->first_reader_of_contents());
  for (size_t node = 0; node < end; ++node) {
    if (!is_recordable(node)) end = node;
  }
  if (!program_.placement.is_in_place()) return end;
  // The device reads inputs where the client has them: elsewhere in every iteration.
  for (const lanes::ValueIndex input : program_.graph.inputs) {
    const bool tensor = program_.graph.values[input].kind == lanes::ValueKind::tensor;
    if (tensor) end = std::min(end, first_use[input]);
  }
  return end;
}

bool GraphReplayer::is_recordable(size_t node) const {
  const GraphProgram::Step& step = program_.steps[node];
  switch (step.kind) {
    case StepKind::done_elsewhere: return true;
    case StepKind::scalar: return !program_.resolved->scalars[step.index].reads_tensor();
    case StepKind::chain: return false;
    case StepKind::call: break;
  }
  // Our own operators read and write the generator's state on the CPU.
  return !step.on_host && !program_.calls[step.index].shape_depends_on_data() &&
         !program_.graph.nodes[node].op.starts_with("laneway::");
}

void GraphReplayer::set_end(size_t end) {
  const auto calls =
      std::count_if(program_.steps.begin(), program_.steps.begin() + static_cast<ptrdiff_t>(end),
                    [](const GraphProgram::Step& step) { return step.kind == StepKind::call; });
  const ptrdiff_t least = end == program_.steps.size() ? 1 : kLeastRecordedCalls;
  end_ = calls >= least ? end : 0;
}

// A number that changes again and again (a learning rate's schedule) is left to what runs plainly.
void GraphReplayer::note_numbers() {
  const std::span<const lanes::InputView> inputs = iteration_.inputs();
  const lanes::Graph& graph = program_.graph;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const lanes::ValueKind kind = graph.values[graph.inputs[i]].kind;
    uint64_t bits = 0;
    if (kind == lanes::ValueKind::tensor) {
      // One that stays on the CPU is taken as a number by the device's operators.
      if (!program_.placement.value_on_host(graph, graph.inputs[i])) continue;
      std::memcpy(&bits, inputs[i].data, std::min<size_t>(inputs[i].bytes, sizeof(bits)));
    } else if (kind == lanes::ValueKind::real) {
      std::memcpy(&bits, &inputs[i].real, sizeof(bits));
    } else {
      bits = static_cast<uint64_t>(inputs[i].integer);
    }
    NumberInput& number = numbers_[i];
    if (number.bits && *number.bits != bits && ++number.changes == kChangesOfANumber &&
        number.first_use < end_) {
      set_end(number.first_use);
    }
    number.bits = bits;
  }
}

std::optional<ReplayKey> GraphReplayer::key() {
  if (end_ == 0 || !iteration_.verified() || control_.refused()) return std::nullopt;
  note_numbers();
  const memory::LaneArena* const arena = current_arena();
  ReplayKey key;
  key.end = end_;
  key.plan = arena->followed();
  if (end_ == 0 || key.plan == nullptr || key.plan->plan.peak > arena->capacity()) {
    return std::nullopt;
  }
  if (key.plan->tape.frees.size() != key.plan->tape.allocations.size()) return std::nullopt;
  key.lane = arena->base();
  key.capacity = arena->capacity();
  key.lane_number = iteration_.lane().number();
  key.image = program_.job.image.base();
  key.state_epoch = program_.resolved->index_check->looks_at_stable() ? iteration_.epoch() : 0;
  for (const NumberInput& number : numbers_) {
    if (number.bits && number.first_use < end_) key.numbers.push_back(*number.bits);
  }
  return key;
}

void GraphReplayer::begin() {
  switch (allowed_) {
    case Replaying::on: way_ = control_.begin(key()); return;
    case Replaying::existing: way_ = control_.begin_existing(key()); return;
    case Replaying::off: way_ = control_.begin_plainly(); return;
  }
}

void GraphReplayer::start() {
  part_done_ = false;
  if (way_ == Way::plain) return;
  const std::optional<memory::TapePosition> here = current_arena()->position();
  if (way_ == Way::replay) {
    if (here != part_.begin) way_ = Way::plain;
    return;
  }
  recording_.reset();
  if (!here) {
    control_.given_up();
    way_ = Way::plain;
    return;
  }
  part_.begin = *here;
  auto started = program_.job.device.start_recording(iteration_.lane(), program_.job.random);
  if (started) {
    recording_ = std::move(started).value();
    return;
  }
  refuse(started.error().message);
}

lanes::NodeOutcome GraphReplayer::run_node(size_t index) {
  if (part_done_) return iteration_.run_node(index);
  if (index >= end_) {
    if (const auto ended = end_recorded_part(); ended != lanes::NodeOutcome::done) return ended;
    return iteration_.run_node(index);
  }
  if (way_ == Way::replay) return lanes::NodeOutcome::done;
  std::string fault = fault_of_recorded(index, iteration_.run_node(index));
  return fault.empty() ? lanes::NodeOutcome::done : run_again_plainly(index, std::move(fault));
}

std::string GraphReplayer::fault_of_recorded(size_t node, lanes::NodeOutcome outcome) {
  if (outcome == lanes::NodeOutcome::done) {
    if (current_arena()->followed() != nullptr) return {};
    iteration_.fail(node, "it allocates otherwise while it is recorded than its plan has it");
  } else if (outcome == lanes::NodeOutcome::out_of_lane) {
    iteration_.fail(node, "while it is recorded it does not fit the lane of its plan");
  }
  return iteration_.last_error().message;
}

bool GraphReplayer::note_recorded_part() {
  const std::optional<memory::TapePosition> here = current_arena()->position();
  if (!here) return false;
  auto carried = CarriedValues::note(
      may_be_carried_, iteration_.values(), *current_arena(),
      [this](const at::Tensor& tensor) { return program_.is_borrowed(tensor); });
  if (!carried) return false;
  part_.end = *here;
  part_.carried = std::move(*carried);
  return true;
}

lanes::NodeOutcome GraphReplayer::end_recorded_part() {
  bool may_run_again = true;
  if (way_ == Way::record) {
    may_run_again = note_recorded_part();
    if (Status ended = recording_->end(); !ended) {
      return run_again_plainly(end_ - 1, ended.error().message);
    }
  }
  if (Status launched = recording_->launch(); !launched) {
    return run_again_plainly(end_ - 1, launched.error().message);
  }
  if (Status marked = iteration_.lane().recording_launched(); !marked) {
    iteration_.fail(end_, marked.error().message, marked.error().code);
    return lanes::NodeOutcome::failed;
  }
  if (way_ == Way::replay) {
    current_arena()->skip_to(part_.end);
    part_.carried.restore(iteration_.values());
  }
  part_done_ = true;
  if (!may_run_again) {
    recording_.reset();
    iteration_.fail(end_, "what the nodes before it leave to it cannot be made again");
    refuse(iteration_.last_error().message);
  }
  return lanes::NodeOutcome::done;
}

void GraphReplayer::refuse(std::string why) {
  control_.refuse();
  way_ = Way::plain;
  log_warning("iterations of graph '" + printable(program_.graph.name) +
              "' are not recorded and run node by node: " + why);
  recordings_.nodes = 0;
  recordings_.refused = std::move(why);
}

void GraphReplayer::give_recording_up(std::string why) {
  const bool spoilt = recording_->is_spoilt(why);
  recording_.reset();
  if (!spoilt) return refuse(std::move(why));
  if (!control_.spoilt()) {
    return refuse("other threads spoilt " + std::to_string(limits::kRecordAgain + 1) +
                  " recordings in a row (a process that waits for the device often should turn "
                  "replay off): " +
                  why);
  }
  way_ = Way::plain;
  log_info("a recording of graph '" + printable(program_.graph.name) +
           "' was spoilt by another thread and will be made again: " + why);
}

lanes::NodeOutcome GraphReplayer::run_again_plainly(size_t node, std::string why) {
  give_recording_up(std::move(why));
  part_.carried = {};
  recorded_.clear();
  iteration_.start_again();
  // Where that cannot be done, the iteration goes on off its tape.
  [[maybe_unused]] const bool on_tape = current_arena()->go_back(part_.begin);
  for (size_t before = 0; before <= node; ++before) {
    const lanes::NodeOutcome outcome = iteration_.run_node(before);
    if (outcome != lanes::NodeOutcome::done) return outcome;
  }
  return lanes::NodeOutcome::done;
}

Status GraphReplayer::deliver(std::span<const lanes::OutputView> outputs) {
  if (way_ != Way::plain && !part_done_) {
    std::string fault = way_ == Way::record ? fault_of_whole() : std::string();
    if (fault.empty()) {
      Status launched = recording_->launch();
      if (launched) return deliver_recorded(outputs);
      fault = launched.error().message;
    }
    if (Status done = run_all_again(std::move(fault)); !done) return done;
  }
  return iteration_.fetch_outputs(outputs);
}

void GraphReplayer::note_outputs() {
  recorded_.clear();
  for (const lanes::ValueIndex output : program_.graph.outputs) {
    const c10::IValue& result = iteration_.values()[output];
    if (iteration_.is_here(output)) {
      recorded_.push_back({nullptr, result, 0});
      continue;
    }
    const at::Tensor& tensor = iteration_.dense(result.toTensor());
    recorded_.push_back({tensor.const_data_ptr(), c10::IValue(), tensor.nbytes()});
  }
}

bool GraphReplayer::met_its_plan() {
  memory::LaneArena* const arena = current_arena();
  const auto plan = arena->followed();
  const std::optional<memory::TapePosition> here = arena->position();
  return plan && (!here || here->allocations == plan->tape.allocations.size());
}

std::string GraphReplayer::fault_of_whole() {
  // After an error the iteration runs plainly, which finds the error again if there is one.
  try {
    note_outputs();
    if (!met_its_plan()) {
      return "its iteration allocates otherwise while it is recorded than its plan has it";
    }
    const Status ended = recording_->end();
    return ended ? std::string() : ended.error().message;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

Status GraphReplayer::run_all_again(std::string why) {
  switch (run_again_plainly(program_.graph.nodes.size() - 1, std::move(why))) {
    case lanes::NodeOutcome::done: return {};
    case lanes::NodeOutcome::out_of_lane:
      return Error{ErrorCode::out_of_memory,
                   "graph '" + program_.graph.name +
                       "' was recorded, which its device refused at the end, and does not fit its "
                       "lane when it runs again: turn replay off for the job"};
    case lanes::NodeOutcome::failed: break;
  }
  return iteration_.last_error();
}

Status GraphReplayer::deliver_recorded(std::span<const lanes::OutputView> outputs) {
  DeviceLane& lane = iteration_.lane();
  if (way_ == Way::replay) current_arena()->skip_rest();
  if (Status marked = lane.recording_launched(); !marked) return marked;
  for (size_t i = 0; i < recorded_.size(); ++i) {
    const RecordedOutput& output = recorded_[i];
    Status fetched;
    if (output.address == nullptr) {
      fetched = copy_out(output.here, outputs[i]);
    } else if (outputs[i].bytes == output.bytes) {
      fetched =
          lane.download(outputs[i].data, output.address, Bytes(static_cast<int64_t>(output.bytes)));
    } else {
      fetched =
          wrong_room("an output", "bytes", {.needed = output.bytes, .given = outputs[i].bytes});
    }
    if (!fetched) return fetched;
  }
  return {};
}

void GraphReplayer::completed() {
  if (way_ == Way::replay) ++replayed_;
  if (way_ == Way::record) {
    ++recordings_.made;
    recordings_.nodes = end_;
  }
  control_.completed();
  way_ = Way::plain;
}

void GraphReplayer::given_up() {
  if (way_ == Way::record) recording_.reset();
  control_.given_up();
  way_ = Way::plain;
}

}  // namespace laneway::adaptor
