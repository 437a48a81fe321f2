#include "tests/service/synthetic/synthetic_graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "adaptor/device/graph_admission.h"
#include "base/check.h"
#include "tests/service/synthetic/synthetic_lane.h"

namespace laneway::testing {
namespace {

bool is_view(const lanes::Node& node) { return node.op == "aten::view"; }

}  // namespace

Result<std::shared_ptr<const SyntheticProgram>> SyntheticProgram::make(lanes::Graph graph,
                                                                       int64_t alignment) {
  auto made = std::make_shared<SyntheticProgram>(std::move(graph));
  made->memory = lanes::predict_memory(made->graph, made->lifetimes, alignment);
  made->probe_height = adaptor::probe_height_of(made->memory, alignment);
  for (const lanes::Node& node : made->graph.nodes) {
    const OperatorRow* const row = find_operator(node.op);
    if (row == nullptr && !is_view(node)) {
      return Error{ErrorCode::invalid_graph,
                   "graph '" + made->graph.name + "' calls " + node.op +
                       ", which the synthetic device does not have: see synthetic_operators.cc"};
    }
    made->operators.push_back(row);
  }
  return std::shared_ptr<const SyntheticProgram>(std::move(made));
}

SyntheticGraph::SyntheticGraph(std::shared_ptr<const SyntheticProgram> program,
                               SyntheticState& state, Bytes most)
    : program_(std::move(program)),
      state_(state),
      probe_need_(adaptor::probe_need_of(program_->memory, program_->probe_height, most)),
      places_(graph_.storages.size()) {}

bool SyntheticGraph::draws() const {
  return std::any_of(program_->operators.begin(), program_->operators.end(),
                     [](const OperatorRow* row) { return row != nullptr && row->draws; });
}

Status SyntheticGraph::begin(std::span<const lanes::InputView> inputs) {
  if (inputs.size() != graph_.inputs.size()) {
    return Error{ErrorCode::invalid_argument,
                 "graph '" + graph_.name + "' has " + std::to_string(graph_.inputs.size()) +
                     " inputs, " + std::to_string(inputs.size()) + " were given"};
  }
  inputs_.assign(inputs.begin(), inputs.end());
  for (uint32_t index = 0; index < graph_.storages.size(); ++index) {
    const lanes::Storage& storage = graph_.storages[index];
    if (storage.kind == lanes::StorageKind::persistent) {
      places_[index] = state_.image + state_.layout.offset(storage.index).count();
    } else if (storage.kind == lanes::StorageKind::input) {
      const lanes::InputView& input = inputs_[storage.index];
      if (input.bytes != storage.bytes) {
        return Error{ErrorCode::invalid_argument, "input " + std::to_string(storage.index) +
                                                      " has " + std::to_string(storage.bytes) +
                                                      " bytes, " + std::to_string(input.bytes) +
                                                      " were given"};
      }
      // Read only: check_graph refuses graphs that write an input.
      places_[index] = static_cast<std::byte*>(const_cast<void*>(input.data));
    }
  }
  random_before_ = state_.random;
  return {};
}

std::span<float> SyntheticGraph::floats(lanes::ValueIndex value) const {
  const uint32_t storage = graph_.values[value].storage;
  LW_CHECK(places_[storage] != nullptr, "a value is there while it is used");
  return {reinterpret_cast<float*>(places_[storage]),
          graph_.storages[storage].bytes / sizeof(float)};
}

bool SyntheticGraph::make_storages(size_t node) {
  for (const uint32_t storage : program_->lifetimes.storages_made.at(static_cast<uint32_t>(node))) {
    const uint64_t bytes = graph_.storages[storage].bytes;
    if (bytes == 0) continue;
    places_[storage] = SyntheticLane::current().allocate(bytes);
    if (places_[storage] == nullptr) return false;
  }
  return true;
}

lanes::NodeOutcome SyntheticGraph::run_node(size_t index) {
  const lanes::Node& node = graph_.nodes[index];
  if (!make_storages(index)) return lanes::NodeOutcome::out_of_lane;
  if (const OperatorRow* const row = program_->operators[index]; row != nullptr) {
    std::vector<std::span<float>> given;
    double number = 0;
    for (const lanes::NamedArgument& argument : node.arguments) {
      const auto& content = argument.argument.content;
      if (const auto* value = std::get_if<lanes::ValueArgument>(&content)) {
        given.push_back(floats(value->value));
      } else if (const auto* real = std::get_if<double>(&content)) {
        number = *real;
      }
    }
    LW_CHECK(given.size() == row->tensors, "an operator is given its tensors");
    const bool in_place = !node.writes.empty();
    const std::span<float> result =
        in_place ? given.front() : floats(node.results.front().values.front());
    if (Status run = row->run({result, given, number, &state_.random}); !run) {
      error_ = run.error();
      error_.message = "node " + std::to_string(index) + " (" + node.op + "): " + error_.message;
      return lanes::NodeOutcome::failed;
    }
  }
  for (const uint32_t storage :
       program_->lifetimes.storages_dying.at(static_cast<uint32_t>(index))) {
    free_storage(storage);
  }
  return lanes::NodeOutcome::done;
}

void SyntheticGraph::free_storage(uint32_t storage) {
  if (places_[storage] == nullptr) return;
  SyntheticLane::current().free(places_[storage]);
  places_[storage] = nullptr;
}

Status SyntheticGraph::finish(std::span<const lanes::OutputView> outputs) {
  LW_CHECK(outputs.size() == graph_.outputs.size(), "an iteration has room for its outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const lanes::Value& value = graph_.values[graph_.outputs[i]];
    if (value.kind == lanes::ValueKind::tensor) {
      std::memcpy(outputs[i].data, places_[value.storage], outputs[i].bytes);
      continue;
    }
    // Nodes make no numbers here: it is an input.
    const auto input = std::find(graph_.inputs.begin(), graph_.inputs.end(), graph_.outputs[i]);
    LW_CHECK(input != graph_.inputs.end(), "a number is an input");
    const lanes::InputView& given = inputs_[static_cast<size_t>(input - graph_.inputs.begin())];
    if (value.kind == lanes::ValueKind::real) {
      std::memcpy(outputs[i].data, &given.real, sizeof(given.real));
    } else {
      std::memcpy(outputs[i].data, &given.integer, sizeof(given.integer));
    }
  }
  for (uint32_t index = 0; index < graph_.storages.size(); ++index) {
    if (graph_.storages[index].kind == lanes::StorageKind::ephemeral) free_storage(index);
  }
  return {};
}

void SyntheticGraph::abandon() {
  for (uint32_t index = 0; index < graph_.storages.size(); ++index) {
    if (graph_.storages[index].kind == lanes::StorageKind::ephemeral) free_storage(index);
  }
  state_.random = random_before_;
}

}  // namespace laneway::testing
