// TorchGraph: one graph of a TorchJob, decoded, checked and resolved against torch's dispatcher,
// with what capture's sizes predict of its memory. Made by TorchJob, whose image and generator it
// uses: it is not run after that job's end (destroying it later is fine). Names nothing of torch.
// Run by one thread at a time; what is const any thread may read.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "lanes/graph/graph.h"
#include "lanes/graph/graph_sizes.h"
#include "lanes/graph_runner.h"

namespace laneway::adaptor {

class TorchGraphRunner;

class TorchGraph {
 public:
  TorchGraph(lanes::GraphMemory memory, Bytes probe_need, std::unique_ptr<TorchGraphRunner> runner);
  ~TorchGraph();
  TorchGraph(const TorchGraph&) = delete;
  TorchGraph& operator=(const TorchGraph&) = delete;

  const lanes::Graph& graph() const;
  // What capture's sizes predict: E, and the need from each node on.
  const lanes::GraphMemory& memory() const { return memory_; }
  // What a lane must have for the first, unplanned iteration.
  Bytes probe_need() const { return probe_need_; }
  // Whether an iteration changes the job's random state.
  bool draws() const;
  lanes::GraphRunner& runner();
  // Whether iterations from the next one on may be recorded and replayed, where device and graph
  // allow it; not so until it is said. Between iterations.
  void allow_replay(bool allowed);
  // How many iterations were replayed.
  uint64_t replayed() const;

 private:
  const lanes::GraphMemory memory_;
  const Bytes probe_need_;
  const std::unique_ptr<TorchGraphRunner> runner_;
};

}  // namespace laneway::adaptor
