#include "adaptor/run/torch_graph_runner.h"

#include <string>
#include <utility>

#include "adaptor/run/graph_loader.h"
#include "adaptor/run/program_binding.h"
#include "base/room_error.h"

namespace laneway::adaptor {

Result<std::unique_ptr<TorchGraphRunner>> TorchGraphRunner::load(lanes::Graph graph,
                                                                 Placement placement,
                                                                 const JobParts& job) {
  auto program = load_program(std::move(graph), std::move(placement), job);
  if (!program) return program.error();
  return std::unique_ptr<TorchGraphRunner>(new TorchGraphRunner(std::move(program).value()));
}

Result<std::unique_ptr<TorchGraphRunner>> TorchGraphRunner::bind(
    std::shared_ptr<const ResolvedGraph> resolved, const JobParts& job) {
  auto program = bind_program(std::move(resolved), job);
  if (!program) return program.error();
  return std::unique_ptr<TorchGraphRunner>(new TorchGraphRunner(std::move(program).value()));
}

Status TorchGraphRunner::begin(std::span<const lanes::InputView> inputs) {
  Status begun = iteration_.begin(inputs);
  if (begun) replayer_.begin();
  return begun;
}

lanes::NodeOutcome TorchGraphRunner::start() {
  const lanes::NodeOutcome sent = iteration_.send_inputs();
  if (sent == lanes::NodeOutcome::done) replayer_.start();
  return sent;
}

lanes::NodeOutcome TorchGraphRunner::run_node(size_t index) {
  if (index == 0) [[unlikely]] {
    if (const auto started = start(); started != lanes::NodeOutcome::done) return started;
  }
  return replayer_.is_plain() ? iteration_.run_node(index) : replayer_.run_node(index);
}

Status TorchGraphRunner::finish(std::span<const lanes::OutputView> outputs) {
  Status done = deliver(outputs);
  if (done) {
    replayer_.completed();
    iteration_.completed();
  } else {
    replayer_.given_up();
    iteration_.failed();
  }
  return done;
}

Status TorchGraphRunner::deliver(std::span<const lanes::OutputView> outputs) {
  const lanes::Graph& graph = program_->graph;
  if (outputs.size() != graph.outputs.size()) {
    return wrong_room("graph '" + graph.name + "'", "outputs",
                      {.needed = graph.outputs.size(), .given = outputs.size()});
  }
  if (graph.nodes.empty() && start() != lanes::NodeOutcome::done) return last_error();
  if (Status delivered = replayer_.deliver(outputs); !delivered) return delivered;
  return iteration_.flush();
}

void TorchGraphRunner::abandon() {
  replayer_.given_up();
  iteration_.abandon();
}

}  // namespace laneway::adaptor
