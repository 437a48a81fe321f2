// GraphProgram: a job's graph in the form in which it runs: a ResolvedGraph, which equal graphs of
// several jobs share, bound to the job: persistent tensors and inputs as views of borrowed
// storages, views of those evaluated once, and calls with these tensors and the job's generator.
// load_program and bind_program (adaptor/run/graph_loader.h) make it; it is immutable afterwards.
//
// It holds no value of an iteration (adaptor/run/graph_iteration.h). Several threads may read it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "adaptor/device/torch_device.h"
#include "adaptor/operators/operator_call.h"
#include "adaptor/operators/torch_tensors.h"
#include "adaptor/run/resolved_graph.h"
#include "adaptor/run/state_mirror.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

// The parts of a job that its programs use. Requires: all of them outlive the programs.
struct JobParts {
  const TorchDevice& device;
  const pipeline::ImageLayout& layout;
  const BorrowedStorage& image;
  RandomState& random;
  StateMirror& mirror;
};

struct GraphProgram {
  using StepKind = ResolvedGraph::StepKind;
  using Step = ResolvedGraph::Step;
  using Chain = ResolvedGraph::Chain;

  GraphProgram(std::shared_ptr<const ResolvedGraph> of, const JobParts& parts)
      : resolved(std::move(of)), job(parts), values(resolved->graph.values.size()) {}
  GraphProgram(const GraphProgram&) = delete;
  GraphProgram& operator=(const GraphProgram&) = delete;

  // The device of a node's tensors.
  c10::Device device_of(size_t node) const {
    return placement.node_on_host(node) ? c10::Device(c10::DeviceType::CPU) : job.device.device();
  }
  // Whether the tensor lies in the image, in its mirror or in an input.
  bool is_borrowed(const at::Tensor& tensor) const;
  // The number of steps that run in an iteration.
  size_t live_step_count() const;

  // Compares the results of a node that ran with the graph's declarations: dtype, sizes, memory,
  // and strides where a node relies on them. Errors: invalid_graph, other_layout.
  Status check_node_results(size_t node, const ValueTable& results) const;

  const std::shared_ptr<const ResolvedGraph> resolved;
  const lanes::Graph& graph = resolved->graph;
  const Placement& placement = resolved->placement;
  const std::vector<Step>& steps = resolved->steps;
  const JobParts job;
  std::vector<BorrowedStorage> inputs;  // by graph input; those of numbers have no bytes
  ValueTable values;                    // the static values, which are the same in every iteration
  std::vector<OperatorCall> calls;
  std::vector<StateMirror::Piece>
      flushed;  // the pieces of the mirror that the CPU's nodes may write
  // Whether the device writes slots that other graphs of the job use on the CPU.
  bool writes_mirror_on_device = false;

 private:
  Status check_is_new(const lanes::Node& node, const ValueTable& results) const;
  Status check_strides(size_t node, const ValueTable& results) const;
};

}  // namespace laneway::adaptor
