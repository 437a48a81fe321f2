// EventSink: where a worker's reports go. Thread-safe; an implementation may carry actions of the
// core out before a call returns.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "lanes/state/event.h"

namespace laneway::service {

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void post(lanes::Event event) = 0;
  // The same, and carries nothing out on the calling thread: for one that keeps the job meanwhile,
  // as the job's end, which waits for that, may be among what the core has decided.
  virtual void leave(lanes::Event event) { post(std::move(event)); }
  // Carries out what the core has decided meanwhile, on the calling thread, if it is there and
  // nobody else is at it. For one that waits for it: another thread need not be woken. Never waits.
  // False: nothing ever comes this way.
  virtual bool carry_out_what_came() { return false; }
  // The job has ended and has no memory any more; `why`, unless somebody wanted it to end. For
  // owners that do not wait for that.
  virtual void job_gone(JobId /*job*/, const std::optional<Error>& /*why*/) {}
  // The device failed for good, and the journal knows it; `why` of each job that ends with the
  // device. An owner that has a successor must leave now. Called while something runs.
  virtual void device_lost(const std::vector<std::pair<JobId, Error>>& /*why*/) {}
};

}  // namespace laneway::service
