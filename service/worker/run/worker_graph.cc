#include "service/worker/run/worker_graph.h"

#include <algorithm>
#include <utility>

#include "service/worker/run/iteration.h"
#include "service/worker/run/work.h"

namespace laneway::service {
namespace {

wire::GraphInfo info_of(uint32_t number, const lanes::Graph& graph) {
  wire::GraphInfo info{.number = number, .name = graph.name, .inputs = {}, .outputs = {}};
  for (const lanes::ValueIndex input : graph.inputs) {
    const lanes::Value& value = graph.values[input];
    const bool tensor = value.kind == lanes::ValueKind::tensor;
    info.inputs.push_back({.kind = value.kind,
                           .bytes = tensor ? graph.storages[value.storage].bytes : 0,
                           .name = {}});
  }
  for (const lanes::ValueIndex output : graph.outputs) {
    info.outputs.push_back(
        {.kind = graph.values[output].kind, .bytes = output_bytes(graph, output)});
  }
  return info;
}

}  // namespace

WorkerGraph::WorkerGraph(uint32_t graph_number, std::unique_ptr<adaptor::DeviceGraph> torch_graph,
                         GraphOrigin from)
    : number(graph_number),
      torch(std::move(torch_graph)),
      origin(std::move(from)),
      info(info_of(graph_number, torch->graph())),
      writes(torch->graph()) {
  plan.need = torch->probe_need();
  (void)take_known_plan();
}

bool WorkerGraph::take_known_plan() {
  if (origin.known == nullptr || plan.planned != nullptr) return false;
  std::optional<KnownGraph::Learnt> learnt = origin.known->learnt(origin.user);
  if (!learnt) return false;
  const int64_t alignment = learnt->plan.planned->plan.alignment;
  take_plan(learnt->plan, std::move(learnt->marks), alignment, plan);
  plan.longest_node = std::max(plan.longest_node, learnt->longest_node);
  if (plan.timed == 0 && learnt->iteration > Duration()) plan.planned_took = learnt->iteration;
  plan.is_shared = true;
  return true;
}

}  // namespace laneway::service
