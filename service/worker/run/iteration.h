// One iteration in a lane: numeric context and arena bound to this thread, planned when the graph
// has a plan and a probe when not, the gate asked before the commit phase. run_iteration executes,
// learn turns what was recorded into a plan (which may take a while), apply puts both into the
// job's books: three steps, because each has another owner (the lane, nobody, the mutex).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adaptor/device/device_lane.h"
#include "base/result.h"
#include "lanes/run/control_word.h"
#include "lanes/run/enqueued_iteration.h"
#include "lanes/run/graph_runner.h"
#include "memory/lane_arena.h"
#include "service/wire/iteration_note.h"
#include "service/worker/run/arriving_runner.h"
#include "service/worker/run/plan_cache.h"
#include "service/worker/run/worker_graph.h"

namespace laneway::service {

enum class IterationEnd : uint8_t {
  completed,
  out_of_lane,      // no trace; the lane must have `need`
  failed_clean,     // no trace; the error is the iteration's
  failed_for_good,  // state is partly written, or the lane was left dirty: the job ends
  abandoned,        // no trace; to be run again, a more urgent one needs the lane first
  cancelled,        // no trace; the job is over
};

// Whether its request is still to be done.
inline bool is_run_again(IterationEnd end) {
  return end == IterationEnd::out_of_lane || end == IterationEnd::abandoned;
}

struct IterationResult {
  IterationEnd end = IterationEnd::completed;
  Error error;
  // Of a completed one that is still on the device: its outputs are there when it has retired. Null
  // where devices compute when they are called.
  std::unique_ptr<lanes::EnqueuedIteration> enqueued;
  bool was_planned = false;
  memory::LaneArena::Use use;
  uint64_t address_hash = 0;
  std::optional<adaptor::Recordings> recordings;  // where they are others than the plan's
  // Of failed_for_good: nothing else is wrong than that the state is partly written, so that it can
  // be taken back; and the lane had no room there.
  bool only_in_commit = false;
  bool no_room_in_commit = false;
  Bytes need;                              // of out_of_lane, and of no_room_in_commit
  std::optional<PlanCache::Entry> learnt;  // set by learn
};

// As a trace has it.
wire::IterationOutcome outcome_of(IterationEnd end);

// Asked before an iteration writes anything persistent.
class CommitEntry {
 public:
  virtual ~CommitEntry() = default;
  // False: it must not, and is given up.
  virtual bool enter() = 0;
  // What runs the iteration's nodes: the runner, or one around it.
  virtual lanes::GraphRunner& around(lanes::GraphRunner& runner) { return runner; }
};

// How an iteration is interrupted.
struct Interruption {
  lanes::ControlWord& word;
  // Called outside of torch while the word has control::kPause; returns when the iteration may go
  // on, or must stop.
  std::function<void()> pause;
  // Whether it may come to that: then nothing is replayed, which would run to its end.
  bool expected = false;
};

// `arena` is bound to the lane's region and belongs to the caller, as do the graph and the lane of
// the device. `commit` may be null: then nobody is asked; `arriving` is null when the job's image
// is whole; without `interruption` nothing comes between.
IterationResult run_iteration(WorkerGraph& graph, adaptor::DeviceLane& lane,
                              memory::LaneArena& arena, std::span<const lanes::InputView> inputs,
                              std::span<const lanes::OutputView> outputs,
                              CommitEntry* commit = nullptr, ArrivingImage* arriving = nullptr,
                              Interruption* interruption = nullptr);

// Waits for its enqueued iteration, if it has one; an enqueued iteration that fails has failed for
// good.
void retire(IterationResult& result);

// Plans the tape of a completed probe.
void learn(IterationResult& result, PlanCache& cache);

// With whatever guards `plan` held. `alignment`: of the lane's region.
void apply(const IterationResult& result, int64_t alignment, GraphPlan& plan);

// The graph runs by this plan from its next iteration on. `marks` may be empty: not known. With
// whatever guards `plan` held.
void take_plan(const PlanCache::Entry& entry, std::vector<memory::TapePosition> marks,
               int64_t alignment, GraphPlan& plan);

}  // namespace laneway::service
