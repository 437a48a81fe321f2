// One iteration in a lane: numeric context and arena bound to this thread, planned when the graph
// has a plan and a probe when not, the gate asked before the commit phase. run_iteration executes,
// learn turns what was recorded into a plan (which may take a while), apply puts both into the
// job's books: three steps, because each has another owner (the lane, nobody, the mutex).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "adaptor/device_lane.h"
#include "base/result.h"
#include "lanes/graph_runner.h"
#include "memory/lane_arena.h"
#include "service/journal/journal.h"
#include "service/worker/plan_cache.h"
#include "service/worker/worker_graph.h"

namespace laneway::service {

enum class IterationEnd : uint8_t {
  completed,
  out_of_lane,      // no trace; the lane must have `need`
  failed_clean,     // no trace; the error is the iteration's
  failed_for_good,  // state is partly written, or the lane was left dirty: the job ends
};

struct IterationResult {
  IterationEnd end = IterationEnd::completed;
  Error error;
  bool was_planned = false;
  memory::LaneArena::Use use;
  uint64_t address_hash = 0;
  Bytes need;                              // of out_of_lane
  std::optional<PlanCache::Entry> learnt;  // set by learn
};

// `arena` is bound to the lane's region and belongs to the caller, as do the graph and the lane of
// the device. The entry of the commit phase is written into `journal`, unless there is none.
IterationResult run_iteration(WorkerGraph& graph, adaptor::DeviceLane& lane,
                              memory::LaneArena& arena, std::span<const lanes::InputView> inputs,
                              std::span<const lanes::OutputView> outputs,
                              JobJournal* journal = nullptr);

// Plans the tape of a completed probe.
void learn(IterationResult& result, PlanCache& cache);

// With whatever guards `plan` held.
void apply(const IterationResult& result, GraphPlan& plan);

}  // namespace laneway::service
