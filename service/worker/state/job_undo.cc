#include "service/worker/state/job_undo.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault_point.h"
#include "service/journal/undo_log.h"
#include "service/worker/common/limits.h"

namespace laneway::service {
namespace {

std::span<std::byte> image_of(const WorkerJob& job) {
  return {job.image, static_cast<size_t>(job.torch->layout().total().count())};
}

// Requires: nothing is under way on the image.
bool restore_from(const UndoLog& log, WorkerContext& context, const WorkerJob& job) {
  if (context.backend.device().capabilities().pool_is_addressable) {
    return log.restore(image_of(job));
  }
  memory::PoolAccess& pool = context.backend.pool_access();
  return log.restore(image_of(job).size(), [&](uint64_t offset, std::span<const std::byte> bytes) {
    const Bytes size(static_cast<int64_t>(bytes.size()));
    return pool.write(job.image + offset, bytes.data(), size).ok();
  });
}

}  // namespace

PieceKey write_log_of(JobId job) { return {PieceKind::write_log, job.value(), 0}; }

bool undo(WorkerContext& context, WorkerJob& job) {
  if (context.recovery == nullptr || !job.journal || job.image == nullptr) return false;
  if (job.journal->recover().verdict != JobRecovery::Verdict::restore) return false;
  for (const PieceKey& key : context.recovery->keys()) {
    if (key.kind != PieceKind::undo_log) continue;
    const UndoLog log(context.recovery->find(key));
    if (!log.is_of(job.id, job.journal->number())) continue;
    if (!restore_from(log, context, job)) return false;
    job.torch->state_written();
    const auto random = job.journal->random_state(limits::kRandomStateBytes);
    if (!job.torch->set_random_state(random)) return false;
    job.journal->take_back();
    fault_point("worker.state_restored");
    return true;
  }
  return false;
}

bool undo_write(WorkerContext& context, WorkerJob& job) {
  if (context.recovery == nullptr || !job.journal || job.image == nullptr) return false;
  const UndoLog log(context.recovery->find(write_log_of(job.id)));
  if (!log.is_of(job.id, job.journal->number()) || !log.restore(image_of(job))) return false;
  job.torch->state_written();
  const auto random = job.journal->random_state(limits::kRandomStateBytes);
  return job.torch->set_random_state(random).ok();
}

Error half_written(const WorkerJob& job) {
  return {ErrorCode::failed,
          "the worker died while a client's bytes were written over the state of job '" + job.name +
              "', and the client is gone: make the job again"};
}

void find_kept(WorkerContext& context, WorkerJob& job) {
  if (context.recovery == nullptr) return;
  job.guard.memory = context.recovery;
  job.guard.owner = job.id.value();
  const uint64_t id = job.id.value();
  GuardedState& guard = job.guard;
  guard.snapshot = Snapshot(context.recovery->find({PieceKind::snapshot, id, 0}));
  guard.redo_log = RedoLog(context.recovery->find({PieceKind::redo_log, id, 0}));
  if (!guard.snapshot.has_memory() || guard.redo_log.room() == Bytes()) return;
  guard.redo_log.forget_from(job.journal->number());
  // The predecessor chose it by what it had measured; this worker measures first.
  guard.choice.method = RecoveryMethod::snapshot;
  guard.choice.interval = std::max<uint64_t>(guard.redo_log.count(), 16);
  guard.next_choice = 8;
}

}  // namespace laneway::service
