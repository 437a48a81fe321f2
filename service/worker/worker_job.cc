#include "service/worker/worker_job.h"

#include <algorithm>
#include <utility>

namespace laneway::service {

Bytes WorkerJob::need() const {
  Bytes highest;
  for (const auto& [number, graph] : graphs) highest = std::max(highest, graph->plan.need);
  return highest;
}

uint32_t WorkerJob::add(std::unique_ptr<adaptor::TorchGraph> graph) {
  const uint32_t number = next_graph++;
  graphs.emplace(number, std::make_shared<WorkerGraph>(number, std::move(graph)));
  return number;
}

}  // namespace laneway::service
