#include "adaptor/run/torch_graph.h"

#include <utility>

#include "adaptor/run/torch_graph_runner.h"

namespace laneway::adaptor {

TorchGraph::TorchGraph(lanes::GraphMemory memory, Bytes probe_need,
                       std::unique_ptr<TorchGraphRunner> runner)
    : memory_(std::move(memory)), probe_need_(probe_need), runner_(std::move(runner)) {}

TorchGraph::~TorchGraph() = default;

const lanes::Graph& TorchGraph::graph() const { return runner_->program().graph; }

bool TorchGraph::draws() const { return runner_->program().draws; }

void TorchGraph::allow_replay(bool allowed) { runner_->replayer().allow(allowed); }

uint64_t TorchGraph::replayed() const { return runner_->replayer().replayed(); }

const Recordings& TorchGraph::recordings() const { return runner_->replayer().recordings(); }

lanes::GraphRunner& TorchGraph::runner() { return *runner_; }

}  // namespace laneway::adaptor
