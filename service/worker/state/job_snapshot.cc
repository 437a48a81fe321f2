#include "service/worker/state/job_snapshot.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "memory/device/streaming_copy.h"
#include "service/journal/limits.h"
#include "service/worker/common/limits.h"

namespace laneway::service {
namespace {

PieceKey snapshot_key(const WorkerJob& job) { return {PieceKind::snapshot, job.id.value(), 0}; }
PieceKey log_key(const WorkerJob& job) { return {PieceKind::redo_log, job.id.value(), 0}; }

// The iteration as it can be run again.
RedoEntry entry_of(const WorkerJob& job, const WorkerGraph& graph,
                   std::span<const lanes::InputView> inputs,
                   std::span<const std::byte> random_state) {
  const lanes::Graph& captured = graph.torch->graph();
  RedoEntry entry{job.journal->number(), graph.number, random_state, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool tensor = captured.values[captured.inputs[i]].kind == lanes::ValueKind::tensor;
    const auto* bytes = static_cast<const std::byte*>(inputs[i].data);
    entry.inputs.push_back(
        {.bytes = tensor ? std::span(bytes, inputs[i].bytes) : std::span<const std::byte>(),
         .real = inputs[i].real,
         .integer = inputs[i].integer});
  }
  return entry;
}

std::span<const std::byte> random_state_before(const WorkerJob& job, const WorkerGraph& graph) {
  if (!graph.torch->draws()) return {};
  return job.journal->random_state(limits::kRandomStateBytes);
}

// In parts, so that a death in the middle can be tried.
Status copy_in_parts(Bytes bytes, const std::function<Status(Bytes, Bytes)>& copy) {
  for (Bytes done; done < bytes;) {
    const Bytes part = std::min(bytes - done, limits::kSnapshotPart);
    if (Status copied = copy(done, part); !copied) return copied;
    done += part;
  }
  return {};
}

Status copy_image(WorkerContext& context, const WorkerJob& job, std::span<std::byte> to) {
  const bool reached = context.backend.device().capabilities().pool_is_addressable;
  const Bytes total = job.torch->layout().total();
  // A successor reads it behind this process's end; so does the lane's thread, which wrote it.
  const bool streamed = total >= limits::kStreamedLog;
  return copy_in_parts(total, [&](Bytes from, Bytes bytes) -> Status {
    std::byte* const into = to.data() + from.count();
    const std::byte* const image = job.image + from.count();
    if (!reached) {
      Status read = context.backend.pool_access().read(into, image, bytes);
      if (!read) return read;
    } else if (streamed) {  // not a transfer: no link is in between
      memory::unordered_streaming_copy(into, image, static_cast<size_t>(bytes.count()));
    } else {
      std::memcpy(into, image, static_cast<size_t>(bytes.count()));
    }
    fault_point("worker.snapshot_part");
    return {};
  });
}

// A piece that is discarded unless it is published.
class NewPiece {
 public:
  NewPiece(RecoveryMemory& memory, PieceKey key) : memory_(memory), key_(key) {}
  ~NewPiece() { memory_.discard(key_); }
  NewPiece(const NewPiece&) = delete;
  NewPiece& operator=(const NewPiece&) = delete;

  Status make(Bytes size) {
    auto made = memory_.make(key_, size);
    if (!made) return made.error();
    bytes_ = made.value();
    return {};
  }
  bool is_made() const { return !bytes_.empty(); }
  std::span<std::byte> bytes() const { return bytes_; }
  void publish() { memory_.publish(key_); }

 private:
  RecoveryMemory& memory_;
  const PieceKey key_;
  std::span<std::byte> bytes_;
};

}  // namespace

Status take_snapshot(WorkerContext& context, WorkerJob& job, Bytes entry) {
  GuardedState& guard = job.guard;
  RecoveryMemory& memory = *context.recovery;
  guard.memory = &memory;
  guard.owner = job.id.value();
  NewPiece image(memory, snapshot_key(job));
  NewPiece log(memory, log_key(job));
  if (context.images_die_with_worker || !guard.snapshot.has_memory()) {
    Status made = image.make(Snapshot::room_for(job.torch->layout().total()));
    if (!made) return made;
  }
  const Bytes one = RedoLog::room_for(1, entry);
  Bytes wanted = std::min(RedoLog::room_for(guard.choice.interval, entry),
                          std::max(limits::kLargestRedoLog, one));
  while (guard.redo_log.room() < wanted) {
    Status made = log.make(wanted);
    if (made) break;
    if (wanted <= one) return made;
    // A shorter one serves as well: the next snapshot comes when it is full.
    wanted = std::max(Bytes(wanted.count() / 2), one);
  }
  const TimePoint start = context.clock.now();  // memory is found once
  Snapshot next = image.is_made() ? Snapshot(image.bytes()) : guard.snapshot;
  next.begin();
  if (Status copied = copy_image(context, job, next.bytes()); !copied) return copied;
  next.end(job.journal->number());
  // From here on the iterations in the log lie before the snapshot, and are not run again.
  if (image.is_made()) image.publish();
  guard.snapshot = next;
  if (log.is_made()) {
    log.publish();
    guard.redo_log = RedoLog(log.bytes());
  }
  guard.redo_log.clear();
  take_into(guard.costs.snapshot, context.clock.now() - start);
  fault_point("worker.snapshot_taken");
  return {};
}

void keep_nothing(WorkerContext& context, WorkerJob& job, const std::string& why) {
  GuardedState& guard = job.guard;
  if (!guard.warned) {
    log_warning("job '" + printable(job.name) +
                "' runs on, and a worker that dies while it writes the " +
                "job's state costs the job: " + why);
  }
  guard.warned = true;
  drop_snapshot(job);  // what runs from here on is in no log
  const BookkeepingLock lock(context.mutex);
  guard.choice = {.method = RecoveryMethod::none, .interval = 1, .share = 0, .redo = {}};
  guard.missing = why;
}

void keep_placed_image(WorkerContext& context, WorkerJob& job) {
  if (!context.images_die_with_worker || context.recovery == nullptr || !job.journal) return;
  const Status taken = take_snapshot(context, job, Bytes());
  if (!taken) keep_nothing(context, job, taken.error().message);
}

Status renew_snapshot(WorkerContext& context, WorkerJob& job) {
  if (context.recovery == nullptr || !job.guard.snapshot.has_memory()) return {};
  if (!context.images_die_with_worker || job.image == nullptr) {
    job.guard.snapshot.forget();
    return {};
  }
  return take_snapshot(context, job, Bytes());  // the log stays as long as it is
}

void drop_snapshot(WorkerJob& job) {
  GuardedState& guard = job.guard;
  if (guard.memory == nullptr) return;
  guard.snapshot.forget();
  guard.snapshot = Snapshot();
  guard.redo_log = RedoLog();
  guard.memory->release(snapshot_key(job));
  guard.memory->release(log_key(job));
}

Bytes log_room_of(const WorkerJob& job, const WorkerGraph& graph,
                  std::span<const lanes::InputView> inputs) {
  return RedoLog::room_of(entry_of(job, graph, inputs, random_state_before(job, graph)));
}

bool snapshot_is_due(const WorkerJob& job, Bytes entry) {
  const GuardedState& guard = job.guard;
  return !guard.snapshot.number() || !guard.redo_log.has_room(entry) ||
         guard.redo_log.count() >= guard.choice.interval;
}

void log_iteration(WorkerJob& job, const WorkerGraph& graph,
                   std::span<const lanes::InputView> inputs) {
  const RedoEntry entry = entry_of(job, graph, inputs, random_state_before(job, graph));
  LW_CHECK(job.guard.redo_log.has_room(RedoLog::room_of(entry)),
           "room was made before the iteration wrote");
  job.guard.redo_log.append(entry);
  fault_point("worker.request_logged");
}

namespace {

Status restore_image(WorkerContext& context, WorkerJob& job) {
  const std::span<std::byte> from = job.guard.snapshot.bytes();
  const bool reached = context.backend.device().capabilities().pool_is_addressable;
  Status restored =
      copy_in_parts(job.torch->layout().total(), [&](Bytes offset, Bytes bytes) -> Status {
        std::byte* const into = job.image + offset.count();
        const std::byte* const image = from.data() + offset.count();
        if (!reached) {
          Status written = context.backend.pool_access().write(into, image, bytes);
          if (!written) return written;
        } else {
          std::memcpy(into, image, static_cast<size_t>(bytes.count()));
        }
        fault_point("worker.snapshot_restored");
        return {};
      });
  if (restored) job.torch->state_written();
  return restored;
}

// Notes the nodes of an iteration that runs again; one may take longer than a lane may be silent.
class NotedRedo final : public CommitEntry {
 public:
  NotedRedo(LaneNoting& noting, const std::string& job) : noting_(noting), job_(job) {}
  lanes::GraphRunner& around(lanes::GraphRunner& runner) override {
    return runner_.emplace(runner, noting_, job_, nullptr);
  }
  bool enter() override { return true; }

 private:
  LaneNoting& noting_;
  const std::string& job_;
  std::optional<NotingRunner> runner_;
};

// One iteration again; nobody gets its outputs.
IterationResult run_again(WorkerJob& job, WorkerGraph& graph, const RedoEntry& entry,
                          LaneExecutor& executor, LaneNoting& noting) {
  std::vector<lanes::InputView> inputs;
  for (const RedoInput& input : entry.inputs) {
    inputs.push_back({input.bytes.data(), input.bytes.size(), input.real, input.integer});
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<lanes::OutputView> outputs;
  for (const wire::OutputInfo& output : graph.info.outputs) {
    bytes.emplace_back(output.bytes);
    outputs.push_back({bytes.back().data(), output.bytes});
  }
  if (!entry.random_state.empty()) {
    if (Status set = job.torch->set_random_state(entry.random_state); !set) {
      IterationResult failed;
      failed.end = IterationEnd::failed_for_good;
      failed.error = set.error();
      return failed;
    }
  }
  NotedRedo noted(noting, job.name);
  IterationResult result = executor.run(graph, inputs, outputs, &noted);
  retire(result);
  return result;
}

IterationResult failed_restore(const WorkerJob& job, const std::string& why) {
  IterationResult result;
  result.end = IterationEnd::failed_for_good;
  result.error = {ErrorCode::failed, "the state of job '" + job.name + "' could not be restored: " +
                                         why + "; make the job again from your last state_dict()"};
  return result;
}

}  // namespace

IterationResult restore_snapshot(WorkerContext& context, WorkerJob& job, LaneExecutor& executor,
                                 GraphHandle& at, LaneNoting& noting) {
  const GuardedState& guard = job.guard;
  const std::optional<uint64_t> from = guard.snapshot.number();
  LW_CHECK(from.has_value(), "only a job with a snapshot is restored from it");
  if (Status restored = restore_image(context, job); !restored) {
    return failed_restore(job, restored.error().message);
  }
  std::map<uint32_t, GraphHandle> graphs;
  {
    const BookkeepingLock lock(context.mutex);
    graphs = job.graphs;
  }
  const std::vector<RedoEntry> entries = guard.redo_log.entries();
  if (entries.size() != guard.redo_log.count()) {
    return failed_restore(job, "the log of its iterations makes no sense");
  }
  for (const RedoEntry& entry : entries) {
    // Before the snapshot; or of the request that did not end, which its ring has.
    if (entry.number < *from || entry.number >= job.journal->number()) continue;
    const auto graph = graphs.find(entry.graph);
    if (graph == graphs.end()) return failed_restore(job, "a graph of the log is not known");
    at = graph->second;
    IterationResult result = run_again(job, *at, entry, executor, noting);
    learn(result, context.plans);
    if (result.end == IterationEnd::out_of_lane) return result;
    if (result.end != IterationEnd::completed) return failed_restore(job, result.error.message);
    {
      const BookkeepingLock lock(context.mutex);
      apply(result, executor.alignment(), at->plan);
    }
    fault_point("worker.request_redone");
  }
  const auto random = job.journal->random_state(limits::kRandomStateBytes);
  if (Status set = job.torch->set_random_state(random); !set) {
    return failed_restore(job, set.error().message);
  }
  if (job.journal->recover().verdict == JobRecovery::Verdict::restore) job.journal->take_back();
  fault_point("worker.state_restored");
  return {};
}

}  // namespace laneway::service
