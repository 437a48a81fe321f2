#include "adaptor/run/torch_graph.h"

#include <utility>

#include "adaptor/run/torch_graph_runner.h"
#include "adaptor/run/torch_program.h"

namespace laneway::adaptor {

TorchGraph::TorchGraph(std::shared_ptr<const TorchProgram> program, Bytes probe_need,
                       std::unique_ptr<TorchGraphRunner> runner)
    : program_(std::move(program)), probe_need_(probe_need), runner_(std::move(runner)) {}

TorchGraph::~TorchGraph() = default;

const lanes::Graph& TorchGraph::graph() const { return runner_->program().graph; }

const lanes::GraphMemory& TorchGraph::memory() const { return program_->memory; }

ProgramHandle TorchGraph::program() const { return program_; }

uint32_t TorchGraph::threads() const {
  if (!program_->resolved->placement.is_in_place()) return 1;
  return static_cast<uint32_t>(graph().context.threads);
}

bool TorchGraph::draws() const { return program_->resolved->draws; }

void TorchGraph::allow_replay(bool allowed) {
  runner_->replayer().allow(allowed ? Replaying::on : Replaying::off);
}

void TorchGraph::allow_existing_recordings() { runner_->replayer().allow(Replaying::existing); }

bool TorchGraph::replays() const { return runner_->replayer().replays(); }

uint64_t TorchGraph::replayed() const { return runner_->replayer().replayed(); }

const Recordings& TorchGraph::recordings() const { return runner_->replayer().recordings(); }

lanes::GraphRunner& TorchGraph::runner() { return *runner_; }

}  // namespace laneway::adaptor
