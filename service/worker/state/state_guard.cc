#include "service/worker/state/state_guard.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/fault_point.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "service/worker/common/limits.h"
#include "service/worker/state/job_snapshot.h"
#include "service/worker/state/job_undo.h"
#include "service/worker/state/stream_undo.h"

namespace laneway::service {
namespace {

PieceKey log_of(LaneId lane) { return {PieceKind::undo_log, lane.value(), 0}; }

Bytes written_bytes(const WorkerJob& job, std::span<const uint32_t> slots) {
  Bytes sum;
  for (const uint32_t slot : slots) {
    sum += Bytes(static_cast<int64_t>(job.torch->layout().slot(slot).bytes));
  }
  return sum;
}

}  // namespace

StateGuard::StateGuard(WorkerContext& context, LaneId lane, adaptor::DeviceLane* device)
    : context_(context),
      lane_(lane),
      device_(device),
      noting_(context.journal != nullptr ? &context.journal->notes(lane) : nullptr) {
  if (context_.recovery != nullptr) log_ = UndoLog(context_.recovery->find(log_of(lane)));
}

LaneNoting& StateGuard::begin(const WorkerJob& job, const WorkerGraph& graph) {
  noting_.begin(LaneDoing::iterating, job.id, graph.number,
                graph.plan.longest_node * limits::kHangFactor);
  return noting_;
}

const Clock* StateGuard::clock_for(const WorkerGraph& graph) const {
  // To enqueue a node takes microseconds, whatever a device will take for it.
  if (!image_is_reached()) return nullptr;
  const bool known = graph.plan.longest_node > Duration();
  const bool measured = !known || graph.plan.iterations % limits::kIterationsPerChoice == 0;
  return measured ? &context_.clock : nullptr;
}

bool StateGuard::image_is_reached() const {
  return context_.backend.device().capabilities().pool_is_addressable;
}

bool StateGuard::can_undo_in_order() const {
  return context_.recovery != nullptr && device_ != nullptr && !image_is_reached() &&
         !context_.images_die_with_worker;
}

void StateGuard::before_commit(WorkerJob& job, const WorkerGraph& graph,
                               std::span<const lanes::InputView> inputs, UndoRunner* undo) {
  if (context_.recovery == nullptr || !job.journal) return;
  GuardedState& guard = job.guard;
  guard.memory = context_.recovery;
  guard.owner = job.id.value();
  if (context_.wanted_recovery && context_.wanted_recovery->block > 0) {
    rotate(job);
  } else if (guard.iterations >= guard.next_choice) {
    choose(job, graph);
  }
  Status begun;
  if (guard.choice.method == RecoveryMethod::undo && (undo != nullptr || can_undo_in_order())) {
    begun = begin_undo(job, graph, undo);
  } else if (guard.choice.method != RecoveryMethod::none) {
    begun = begin_redoable(job, graph, inputs);
  }
  if (!begun) fall_back(job, graph, undo, begun.error());
}

void StateGuard::fall_back(WorkerJob& job, const WorkerGraph& graph, UndoRunner* undo,
                           const Error& error) {
  GuardedState& guard = job.guard;
  const bool tried_undo = guard.choice.method == RecoveryMethod::undo;
  const bool can = undo != nullptr || can_undo_in_order();
  if (tried_undo || !can || context_.wanted_recovery) {
    return keep_nothing(context_, job, error.message);
  }
  drop_snapshot(job);
  {
    const BookkeepingLock lock(context_.mutex);
    guard.choice = undo_at(guard.costs);
  }
  const Status begun = begin_undo(job, graph, undo);
  if (!begun) return keep_nothing(context_, job, begun.error().message);
  log_info("job '" + printable(job.name) +
           "': there is no room for a snapshot, so each iteration saves what " +
           "it overwrites, which costs more: " + error.message);
}

void StateGuard::choose(WorkerJob& job, const WorkerGraph& graph) {
  GuardedState& guard = job.guard;
  guard.next_choice = std::min(std::max(limits::kIterationsBeforeChoice, guard.iterations * 2),
                               guard.iterations + limits::kIterationsPerChoice);
  RecoveryChoice choice;
  RecoveryCosts costs = guard.costs;
  if (context_.wanted_recovery) {
    choice.method = context_.wanted_recovery->method;
    choice.interval = context_.wanted_recovery->interval;
  } else if (!(image_is_reached() || can_undo_in_order()) || context_.images_die_with_worker ||
             (costs.undo == Duration() && costs.snapshot > Duration())) {
    choice = choose_interval(costs);
  } else if (costs.undo > Duration()) {
    const Bytes image = job.torch->layout().total();
    if (costs.snapshot == Duration()) {
      costs.snapshot = Duration(costs.undo.ns() * image.count() / graph.writes.bytes().count());
    }
    choice = choose_recovery(costs);
  }
  const RecoveryMethod before = guard.choice.method;
  {
    const BookkeepingLock lock(context_.mutex);
    guard.choice = choice;
    guard.missing.clear();
  }
  if (choice.method != RecoveryMethod::snapshot) drop_snapshot(job);
  const bool left_undo = before == RecoveryMethod::undo && choice.method != before;
  if (left_undo && grown_for_ == job.id) release_log();
}

void StateGuard::rotate(WorkerJob& job) {
  GuardedState& guard = job.guard;
  const WantedRecovery& wanted = *context_.wanted_recovery;
  const RecoveryMethod method = rotated_method(guard.iterations, wanted.block);
  const bool block_begins = guard.iterations % wanted.block == 0;
  if (!block_begins && method == guard.choice.method) return;
  // The memory of what is not in use stays: it is needed again soon.
  guard.snapshot.forget();
  const BookkeepingLock lock(context_.mutex);
  guard.choice = {.method = method, .interval = wanted.interval, .share = 0, .redo = {}};
}

void StateGuard::release_log() {
  if (context_.recovery == nullptr) return;
  log_ = UndoLog();
  context_.recovery->release(log_of(lane_));
  grown_for_ = {};
}

Status StateGuard::begin_undo(WorkerJob& job, const WorkerGraph& graph, UndoRunner* undo) {
  const Bytes written = graph.writes.bytes();
  const Bytes room = UndoLog::room_for(graph.writes.slots().size(), written);
  if (log_.room() < room) {
    log_ = UndoLog();
    const auto memory = context_.recovery->add(log_of(lane_), room);
    if (!memory) {
      log_ = UndoLog(context_.recovery->find(log_of(lane_)));
      return memory.error();
    }
    log_ = UndoLog(memory.value());
    grown_for_ = job.id;
  }
  log_.begin(job.id, job.journal->number(), written);
  if (undo == nullptr) return save_in_order(job, graph);
  const GuardedState& guard = job.guard;
  const bool measured = guard.iterations < limits::kIterationsPerChoice ||
                        guard.iterations % limits::kIterationsPerChoice == 0;
  undo->begin_saving(log_, measured ? &context_.clock : nullptr);
  return {};
}

// To measure it the lane must stand still before and behind it.
Status StateGuard::save_in_order(WorkerJob& job, const WorkerGraph& graph) {
  GuardedState& guard = job.guard;
  const bool early =
      guard.iterations >= 2 && guard.iterations < limits::kIterationsBeforeChoice / 2;
  const bool measured = early || guard.iterations % limits::kIterationsPerChoice == 0;
  const SavedImage image{.base = job.image, .layout = job.torch->layout(), .writes = graph.writes};
  const bool waits = measured && !device_->is_recording();
  Status done = waits ? device_->drain() : Status();
  const TimePoint start = context_.clock.now();
  if (done) {
    done = service::save_in_order(log_, image, *device_, context_.backend.pool_access());
  }
  if (done && waits) done = device_->drain();
  if (!done) {
    log_.forget();  // it says nothing about what is written
    return done;
  }
  if (measured) take_into(guard.costs.undo, context_.clock.now() - start);
  return {};
}

Status StateGuard::begin_redoable(WorkerJob& job, const WorkerGraph& graph,
                                  std::span<const lanes::InputView> inputs) {
  const TimePoint start = context_.clock.now();
  const Bytes entry = log_room_of(job, graph, inputs);
  if (!snapshot_is_due(job, entry)) {
    began_in_ = context_.clock.now() - start;
    return {};
  }
  noting_.change(LaneDoing::snapshotting);
  Status taken = take_snapshot(context_, job, entry);
  noting_.change(LaneDoing::iterating);
  return taken;
}

void StateGuard::completed(WorkerJob& job, WorkerGraph& graph,
                           std::span<const lanes::InputView> inputs, Duration took,
                           const Measured& measured) {
  GuardedState& guard = job.guard;
  if (measured.longest_node > graph.plan.longest_node) {
    const BookkeepingLock lock(context_.mutex);  // reports read it
    graph.plan.longest_node = measured.longest_node;
    if (const GraphOrigin& from = graph.origin; from.known != nullptr) {
      from.known->note_longest(from.user, measured.longest_node);
    }
  }
  noting_.change(LaneDoing::planning);
  if (context_.recovery == nullptr || !job.journal || graph.writes.empty()) return;
  if (guard.choice.method == RecoveryMethod::snapshot) {
    const TimePoint start = context_.clock.now();
    log_or_forget(job, graph, inputs);
    take_into(guard.costs.inputs, began_in_ + (context_.clock.now() - start));
  }
  // The first iterations are slower than all others.
  if (++guard.iterations <= 2) return;
  take_into(guard.costs.iteration, took);
  if (measured.undo > Duration()) take_into(guard.costs.undo, measured.undo);
}

void StateGuard::take_back(WorkerJob& job, LaneExecutor& executor, IterationResult& result) {
  if (!result.only_in_commit || result.end != IterationEnd::failed_for_good) return;
  if (context_.recovery == nullptr || !job.journal || !restore(job, executor)) return;
  result.end = result.no_room_in_commit ? IterationEnd::out_of_lane : IterationEnd::failed_clean;
  result.error.code = ErrorCode::invalid_argument;
  result.error.message += "; the iteration was taken back, the job's state is as before it";
}

bool StateGuard::restore(WorkerJob& job, LaneExecutor& executor) {
  if (undo(context_, job)) return true;
  if (job.journal->recover().verdict != JobRecovery::Verdict::restore) return false;
  if (!job.guard.snapshot.number()) return false;
  GraphHandle at;
  const IterationResult restored = restore_snapshot_of(job, executor, at);
  if (restored.end == IterationEnd::completed) return true;
  log_error("job '" + printable(job.name) + "' cannot be taken back: " + restored.error.message);
  return false;
}

void StateGuard::log_or_forget(WorkerJob& job, const WorkerGraph& graph,
                               std::span<const lanes::InputView> inputs) {
  bool is_known = false;
  {
    const BookkeepingLock lock(context_.mutex);
    const auto found = job.graphs.find(graph.number);
    is_known = found != job.graphs.end() && found->second.get() == &graph;
  }
  if (is_known) return log_iteration(job, graph, inputs);
  // It was dropped while this iteration waited: a successor does not have it.
  if (Status renewed = renew_snapshot(context_, job); !renewed) {
    keep_nothing(context_, job, renewed.error().message);
  }
}

void StateGuard::left(const WorkerJob& job) {
  noting_.change(LaneDoing::planning);
  if (!job.journal || job.journal->recover().verdict == JobRecovery::Verdict::restore) return;
  log_.forget();
}

IterationResult StateGuard::restore_snapshot_of(WorkerJob& job, LaneExecutor& executor,
                                                GraphHandle& at) {
  noting_.begin(LaneDoing::restoring, job.id);
  outdate_copy(context_, job);
  return restore_snapshot(context_, job, executor, at, noting_);
}

void StateGuard::before_access(WorkerJob& job, const Work& work) {
  noting_.begin(LaneDoing::copying, job.id);
  if (!work.writes_state()) return;
  outdate_copy(context_, job);
  save_slots(job, work.slots_at_risk());
}

void StateGuard::save_slots(WorkerJob& job, std::span<const uint32_t> slots_at_risk) {
  if (context_.recovery == nullptr || !job.journal || job.image == nullptr) return;
  if (slots_at_risk.empty() || !image_is_reached()) return;
  // A predecessor died in the same write, and left the slots partly written.
  (void)undo_write(context_, job);
  const Bytes room = UndoLog::room_for(slots_at_risk.size(), written_bytes(job, slots_at_risk));
  const auto memory = context_.recovery->add(write_log_of(job.id), room);
  if (!memory) {
    log_warning("a state write of a client of job '" + printable(job.name) +
                "' cannot be taken back if both die in it: " + memory.error().message);
    return;
  }
  job.guard.memory = context_.recovery;
  job.guard.owner = job.id.value();
  job.guard.write_log = UndoLog(memory.value());
  job.guard.write_log.begin(job.id, job.journal->number());
  const pipeline::ImageLayout& layout = job.torch->layout();
  for (const uint32_t slot : slots_at_risk) {
    const auto offset = static_cast<uint64_t>(layout.offset(slot).count());
    (void)job.guard.write_log.save(offset, {job.image + offset, layout.slot(slot).bytes});
  }
  fault_point("worker.write_saved");
}

void StateGuard::after_access(WorkerJob& job, const Work& work) {
  if (!work.writes_state()) return;
  if (context_.recovery == nullptr || !job.journal) return;
  // Iterations of before the write lead to another state than it left.
  if (Status renewed = renew_snapshot(context_, job); !renewed) {
    keep_nothing(context_, job, renewed.error().message);
  }
  if (job.guard.write_log.room() == Bytes()) return;
  job.guard.write_log = UndoLog();
  job.guard.memory->release(write_log_of(job.id));
}

}  // namespace laneway::service
