// StateGuard: keeps the state of the jobs of one lane recoverable while their iterations write it,
// by the method that each job's measured costs choose (recovery_choice.h), and restores it: when an
// iteration fails behind its first write, and in a worker whose predecessor died there.
//
// Belongs to whoever has set the lane's `busy`; what it does to a job needs WorkerJob::running.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "adaptor/device/device_lane.h"
#include "base/ids.h"
#include "base/result.h"
#include "lanes/run/graph_runner.h"
#include "service/journal/undo_log.h"
#include "service/worker/common/lane_noting.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/lane_executor.h"
#include "service/worker/run/work.h"
#include "service/worker/state/undo_runner.h"

namespace laneway::service {

class StateGuard {
 public:
  // The context must outlive the guard, and so must the lane of the device (null: there is none).
  // What a predecessor left of the lane's log stays.
  StateGuard(WorkerContext& context, LaneId lane, adaptor::DeviceLane* device);

  // Where something was measured; zero elsewhere.
  struct Measured {
    Duration longest_node;
    Duration undo;
  };

  // An iteration begins: the journal notes it for the supervisor.
  LaneNoting& begin(const WorkerJob& job, const WorkerGraph& graph);
  // The clock when this iteration's nodes are to be measured, else null.
  const Clock* clock_for(const WorkerGraph& graph) const;
  // What is left of the lane's work happens on its device; and nothing is under way any more.
  void landing() { noting_.change(LaneDoing::landing); }
  void end() { noting_.end(); }
  // The iteration that began waits for its image, or goes on.
  void wait(bool waits) { waits ? noting_.end() : noting_.change(LaneDoing::iterating); }

  // Whether the CPU reaches images, so that their old bytes can be saved.
  bool can_undo() const { return context_.recovery != nullptr && image_is_reached(); }
  // Right before the journal says that the job's iteration of `graph` writes; whatever ran before
  // has retired. `undo` is its runner, null where the CPU does not reach the image.
  void before_commit(WorkerJob& job, const WorkerGraph& graph,
                     std::span<const lanes::InputView> inputs, UndoRunner* undo);
  // The iteration is complete and is not answered yet.
  void completed(WorkerJob& job, WorkerGraph& graph, std::span<const lanes::InputView> inputs,
                 Duration took, const Measured& measured);
  // An iteration that failed behind its first write: where its state was kept, that is as before
  // it, the journal says so, and `result` is that of an iteration that wrote nothing.
  void take_back(WorkerJob& job, LaneExecutor& executor, IterationResult& result);

  // The iteration did not complete, and left no trace: its log is nobody's.
  void left(const WorkerJob& job);

  // The memory of the lane's log goes back.
  void release_log();

  // An access to the state begins, whose client may be gone when the worker is; and it is over.
  void before_access(WorkerJob& job, const Work& work);
  void after_access(WorkerJob& job, const Work& work);
  // As restore_snapshot, for a job that a predecessor left so.
  IterationResult restore_snapshot_of(WorkerJob& job, LaneExecutor& executor, GraphHandle& at);

 private:
  bool restore(WorkerJob& job, LaneExecutor& executor);
  void save_slots(WorkerJob& job, std::span<const uint32_t> slots);
  void choose(WorkerJob& job, const WorkerGraph& graph);
  // For measurements: what is done now is done by the number of the iteration alone.
  void rotate(WorkerJob& job);
  // There is no room for what was chosen: undo, or nothing, and said so.
  void fall_back(WorkerJob& job, const WorkerGraph& graph, UndoRunner* undo, const Error& error);
  // out_of_memory when there is no room.
  Status begin_undo(WorkerJob& job, const WorkerGraph& graph, UndoRunner* undo);
  // All at once, by the order of the lane's device.
  Status save_in_order(WorkerJob& job, const WorkerGraph& graph);
  // Images that the CPU does not reach, and that are there when the worker is not.
  bool can_undo_in_order() const;
  void log_or_forget(WorkerJob& job, const WorkerGraph& graph,
                     std::span<const lanes::InputView> inputs);
  Status begin_redoable(WorkerJob& job, const WorkerGraph& graph,
                        std::span<const lanes::InputView> inputs);
  bool image_is_reached() const;

  WorkerContext& context_;
  const LaneId lane_;
  adaptor::DeviceLane* const device_;
  LaneNoting noting_;
  UndoLog log_;
  Duration began_in_;  // what a redoable iteration took at its beginning, without a snapshot
  JobId grown_for_;    // the job that the log has its size from
};

}  // namespace laneway::service
