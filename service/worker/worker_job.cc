#include "service/worker/worker_job.h"

#include <algorithm>

namespace laneway::service {

Bytes WorkerJob::need() const {
  Bytes highest;
  for (const GraphPlan& plan : plans) highest = std::max(highest, plan.need);
  return highest;
}

}  // namespace laneway::service
