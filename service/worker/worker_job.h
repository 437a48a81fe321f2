// WorkerJob: a job as the worker keeps it: its torch side, its graphs, its queue, where it is.
// Plain record: the worker's mutex guards everything below the line; what is above it belongs to
// whoever has set `running`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adaptor/torch_job.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "lanes/reason.h"
#include "service/worker/work.h"
#include "service/worker/worker_graph.h"

namespace laneway::service {

class WorkerLane;

struct WorkerJob {
  WorkerJob(JobId job_id, std::string job_name, std::unique_ptr<adaptor::TorchJob> torch_job)
      : id(job_id), name(std::move(job_name)), torch(std::move(torch_job)) {}

  const JobId id;
  const std::string name;
  const std::unique_ptr<adaptor::TorchJob> torch;

  // --- guarded by the worker's mutex -----------------------------------------------------------
  enum class Phase : uint8_t { waiting, placed, ended };
  Phase phase = Phase::waiting;
  std::map<uint32_t, GraphHandle> graphs;  // by number
  uint32_t next_graph = 0;                 // numbers are not used twice
  lanes::Reason reason;                    // while it waits
  std::optional<Error> end_reason;         // why it ended, when not by its client's wish
  std::vector<std::byte> initial;          // the image's bytes until it is placed
  std::byte* image = nullptr;              // where they are then
  WorkerLane* lane = nullptr;              // while a turn is open
  bool running = false;                    // an iteration or a state access is under way
  uint32_t visitors = 0;  // wait for it to be idle; no next piece of work starts before
  bool closing = false;   // no further work is taken
  std::deque<std::shared_ptr<Work>> queue;
  CondVar changed;  // phase, running

  // What a lane must have for any of its graphs.
  Bytes need() const;
  // The number under which the graph is known from now on.
  uint32_t add(std::unique_ptr<adaptor::TorchGraph> graph);
};

}  // namespace laneway::service
