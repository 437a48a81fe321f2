// WorkerGraph: one graph of a job as the worker keeps it, with what was learnt about its memory
// (tape, plan). Shared by the job and by the work that is queued for it, so that a graph which is
// dropped lives until the last iteration of it is done. `torch` and `plan` belong to whoever has
// set WorkerJob::running; a plan is changed by whoever also holds the worker's mutex, so either is
// enough to read it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "adaptor/device/device_graph.h"
#include "base/bytes.h"
#include "base/time.h"
#include "memory/planned_tape.h"
#include "service/wire/graph_info.h"
#include "service/worker/common/thread_team.h"
#include "service/worker/run/known_graph.h"
#include "service/worker/run/write_set.h"

namespace laneway::service {

// What is known about one graph's memory.
struct GraphPlan {
  std::shared_ptr<const memory::PlannedTape> planned;  // none: the next iteration is a probe
  std::vector<memory::TapePosition> marks;  // where its tape stands before each node, if known
  bool left_tape = false;                   // the last iteration did
  Bytes need;                               // what a lane must have for the next iteration
  Bytes bound;                              // live-byte bound of the tape
  double plan_s = 0;                        // time that planning took
  bool is_shared = false;                   // an equal graph's job measured it, not this one's
  uint64_t iterations = 0;                  // completed
  uint64_t probes = 0;                      // of them, unplanned
  uint64_t off_tape = 0;                    // iterations that left their tape
  uint64_t replayed = 0;                    // iterations of which a recording did a part, or all
  adaptor::Recordings recordings;           // what came of recording its iterations
  uint64_t address_hash = 0;                // of the last planned iteration
  Duration last_took;                       // the last completed iteration
  Duration least_took;                      // … and the shortest; 0: none was
  // Of iterations whose memory was planned, as a probe's is not: the last one's time, or an equal
  // graph's; how many were timed; of which number equal graphs' jobs were told.
  Duration planned_took;
  uint64_t timed = 0;
  uint64_t told = 0;
  void count_time(Duration took, bool was_planned) {
    if (was_planned) {
      planned_took = took;
      ++timed;
    }
    last_took = took;
    if (least_took == Duration() || took < least_took) least_took = took;
  }
  Duration longest_node;         // of those that were measured; 0: none. The lane's thread's alone
  uint64_t address_changes = 0;  // planned iterations whose addresses were not the last one's
};

// What an iteration takes whose image is there, by the way in which it runs; 0: not known.
struct DeviceTimes {
  Duration by_nodes;  // the shortest: libraries load what they need in the first ones
  Duration replayed;  // the last
};

struct WorkerGraph {
  // It begins with what is known of equal graphs.
  WorkerGraph(uint32_t graph_number, std::unique_ptr<adaptor::DeviceGraph> torch_graph,
              GraphOrigin from = {});

  // Takes the plan that a job with an equal graph learnt. False, and nothing changes, when there is
  // none, or this one has a plan of its own. Requires: no iteration of it runs, and the worker's
  // mutex is held once its job is known.
  bool take_known_plan();

  // Whether an iteration may use OpenMP threads beside the one that runs it.
  bool uses_team() const { return torch->threads() > 1; }
  // Whether it certainly does, so that they are gathered after a pause.
  bool gathers_team() const { return uses_team() && plan.least_took >= kTeamWorthGathering; }

  const uint32_t number;
  const std::unique_ptr<adaptor::DeviceGraph> torch;
  const GraphOrigin origin;
  const wire::GraphInfo info;  // as clients see it
  const WriteSet writes;
  GraphPlan plan;
  bool shared_plan_kept = false;     // for a successor; see KeptPlans::keep
  DeviceTimes times;                 // where nodes are enqueued. The mutex guards it
  std::vector<Bytes> arrival_needs;  // once an iteration ran while the image arrived
  Bytes prefix;                      // pipeline/prefix.h, once it is known. The mutex guards it
  std::atomic<bool> dropped{false};  // by its job
};

using GraphHandle = std::shared_ptr<WorkerGraph>;

}  // namespace laneway::service
