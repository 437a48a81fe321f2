// WorkerJob: a job as the worker keeps it: its torch side, its queue, where it is, and per graph
// what was learnt about its memory (tape, plan). Plain record: the worker's mutex guards everything
// below the line; what is above it belongs to whoever has set `running`. (Plans are changed by
// whoever has both, so either is enough to read them.)
#pragma once

#include <cstdint>
#include <deque>
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
#include "memory/planned_tape.h"
#include "service/worker/work.h"

namespace laneway::service {

class WorkerLane;

// What is known about one graph's memory.
struct GraphPlan {
  std::shared_ptr<const memory::PlannedTape> planned;  // none: the next iteration is a probe
  Bytes need;                    // what a lane must have for the next iteration
  Bytes bound;                   // live-byte bound of the tape
  double plan_s = 0;             // time that planning took
  uint64_t iterations = 0;       // completed
  uint64_t probes = 0;           // of them, unplanned
  uint64_t off_tape = 0;         // iterations that left their tape
  uint64_t address_hash = 0;     // of the last planned iteration
  uint64_t address_changes = 0;  // planned iterations whose addresses were not the last one's
};

struct WorkerJob {
  WorkerJob(JobId job_id, std::string job_name, std::unique_ptr<adaptor::TorchJob> torch_job)
      : id(job_id), name(std::move(job_name)), torch(std::move(torch_job)) {}

  // What a lane must have for any of its graphs.
  Bytes need() const;

  const JobId id;
  const std::string name;
  const std::unique_ptr<adaptor::TorchJob> torch;
  std::vector<GraphPlan> plans;  // by graph

  // --- guarded by the worker's mutex -----------------------------------------------------------
  enum class Phase : uint8_t { waiting, placed, ended };
  Phase phase = Phase::waiting;
  lanes::Reason reason;             // while it waits
  std::optional<Error> end_reason;  // why it ended, when not by its client's wish
  std::vector<std::byte> initial;   // the image's bytes until it is placed
  std::byte* image = nullptr;       // where they are then
  WorkerLane* lane = nullptr;       // while a turn is open
  bool running = false;             // an iteration or a state access is under way
  uint32_t visitors = 0;            // wait for it to be idle; no next piece of work starts before
  bool closing = false;             // no further work is taken
  std::deque<std::shared_ptr<Work>> queue;
  CondVar changed;  // phase, running
};

}  // namespace laneway::service
