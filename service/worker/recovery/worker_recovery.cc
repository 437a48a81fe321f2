#include "service/worker/recovery/worker_recovery.h"

#include <algorithm>
#include <set>
#include <utility>

#include "service/worker/common/limits.h"
#include "service/worker/jobs/job_lane.h"
#include "service/worker/jobs/journalled_image.h"
#include "service/worker/jobs/plan_sharing.h"
#include "service/worker/jobs/ring_work.h"
#include "service/worker/recovery/blame.h"
#include "service/worker/state/job_snapshot.h"
#include "service/worker/state/job_undo.h"

namespace laneway::service {

std::vector<JobHandle> WorkerRecovery::recover() {
  std::vector<JobHandle> recovered;
  const BookkeepingLock lock(context_.mutex);
  blame_for_death(context_, jobs_);
  // The journal does not say which users' bytes a predecessor left in the regions.
  if (lanes_.recover()) jobs_.users_are_unknown();
  restore_plans();
  for (const auto& [id, job] : jobs_.all()) {
    if (!job->recovered) continue;
    recover(*job);
    job->recovered = false;
    recovered.push_back(job);
  }
  release_what_is_nobodys();
  return recovered;
}

void WorkerRecovery::release_what_is_nobodys() {
  if (context_.recovery == nullptr) return;
  for (const PieceKey& key : context_.recovery->keys()) {
    const bool of_lane = key.kind == PieceKind::undo_log;
    // No request is in its commit phase any more, so that no log is of one.
    if (of_lane) UndoLog(context_.recovery->find(key)).forget();
    const JobHandle job = of_lane ? nullptr : jobs_.get(JobId(key.owner));
    bool of_use = of_lane ? lanes_.has(LaneId(key.owner)) : job != nullptr;
    if (key.kind == PieceKind::write_log && job != nullptr) {
      of_use = UndoLog(context_.recovery->find(key)).is_of(job->id, job->journal->number());
    }
    if (!of_use) context_.recovery->release(key);
  }
}

void WorkerRecovery::restore_plans() {
  std::set<JobId> known;
  for (const auto& [id, job] : jobs_.all()) {
    known.insert(id);
    if (!job->recovered) continue;
    for (const auto& [number, graph] : job->graphs) context_.kept_plans.restore(id, *graph);
  }
  share_restored_plans(jobs_);
  context_.kept_plans.retain(known);
}

void WorkerRecovery::recover(WorkerJob& job) {
  const JobJournal& journal = *job.journal;
  job.iterations = journal.iterations();
  job.busy = journal.busy();
  find_image(job);
  if (journal.lane().valid()) {
    job.admitted = journal.lane();
    job.image_offset = journal.image_offset();
    job.image_size = journal.image_size();
  }
  const auto blamed = journal.blamed();
  if (blamed && !journal.died_of_it()) {
    return jobs_.fail(job, {ErrorCode::device_lost, *blamed + "; the job is not tried again"});
  }
  job.quarantined = quarantine_of(job);
  if (is_beyond_quarantine(job)) return jobs_.fail(job, *job.quarantined);
  find_kept(context_, job);
  if (journal.is_placed()) {
    if (Status bound = bind_image(job); !bound) return jobs_.fail(job, bound.error());
  }
  if (journal.is_suspect() && !job.quarantined) job.suspected = limits::kSuspectIterations;
  if (Status restored = restore_state(job); !restored) return jobs_.fail(job, restored.error());
  // The predecessor died before it did so.
  if (job.is_away() && !job.guard.restore_pending) drop_snapshot(job);
  if (journal.recover().verdict == JobRecovery::Verdict::rewrite) write_again(job);
}

void WorkerRecovery::find_image(WorkerJob& job) {
  if (const auto copy = job.journal->copy()) {
    job.copy_checksum = copy->checksum;
    job.initial = pipeline::InitialImage();
    // The pool went with the worker; the copy did not.
    if (context_.images_die_with_worker && job.journal->is_placed()) job.journal->left();
  }
  lanes::ImageLife found = read_image(*job.journal);
  if (found.state == lanes::ImageState::here)
    found.state = lanes::ImageState::coming;  // till bound
  job.change_image([&found](lanes::ImageLife& image) { image = found; });
}

Status WorkerRecovery::bind_image(WorkerJob& job) {
  if (context_.images_die_with_worker && !job.guard.snapshot.number()) {
    return Error{ErrorCode::failed,
                 "the worker ended, and the memory of device '" +
                     context_.backend.device().capabilities().name +
                     "' with it, because this platform cannot share it between processes: the "
                     "state of job '" +
                     job.name + "' is lost; make the job again from your last state_dict()"};
  }
  const Bytes size = job.image_size;
  if (job.image_offset < Bytes() || size < job.torch->layout().total() ||
      size > context_.capacity || job.image_offset > context_.capacity - size) {
    return Error{ErrorCode::internal, "the journal's place of the image of job '" + job.name +
                                          "' is outside of the pool"};
  }
  job.image = context_.pool + job.image_offset.count();
  job.torch->bind_image(job.image);
  job.initial = pipeline::InitialImage();
  job.change_image([](lanes::ImageLife& image) { image.placed(); });
  return {};
}

Status WorkerRecovery::restore_state(WorkerJob& job) {
  const JobJournal& journal = *job.journal;
  const std::string iteration = "iteration " + std::to_string(job.iterations + 1);
  const JobRecovery::Verdict verdict = journal.recover().verdict;
  if (verdict == JobRecovery::Verdict::spoiled) {
    return Error{ErrorCode::failed, "job '" + job.name + "' failed in " + iteration +
                                        ", which left its state partly written; make the job "
                                        "again from your last state_dict()"};
  }
  const bool torn = verdict == JobRecovery::Verdict::restore && !undo(context_, job);
  const bool lost = context_.images_die_with_worker && journal.is_placed();
  // The lane does it, because iterations are run again.
  job.guard.restore_pending = (torn || lost) && job.guard.snapshot.number().has_value();
  if (!torn || job.guard.restore_pending) return {};
  const auto device = journal.died_of_it() ? std::nullopt : journal.suspected();
  return Error{device ? ErrorCode::device_lost : ErrorCode::failed,
               (device ? *device + "; at that time " : "the worker died while ") + iteration +
                   " of job '" + job.name +
                   "' was writing the job's state, which is now neither the former nor the next; "
                   "make the job again from your last state_dict()"};
}

void WorkerRecovery::write_again(WorkerJob& job) {
  for (const auto& link : job.links) {
    if (!link->rewrite) continue;
    const auto segment = link->segments.find(link->rewrite->segment);
    const std::shared_ptr<RingWork> work = job.free_work(*link);
    work->start(*link->rewrite, nullptr,
                segment != link->segments.end() ? segment->second : nullptr);
    job.queue.push_back(work);
    link->rewrite.reset();
  }
  if (!job.queue.empty()) return;
  if (undo_write(context_, job)) {
    job.journal->take_back();
  } else {
    jobs_.fail(job, half_written(job));
  }
}

lanes::WorkerReport WorkerRecovery::report() {
  lanes::WorkerReport report;
  const BookkeepingLock lock(context_.mutex);
  for (const auto& [id, job] : jobs_.all()) {
    lanes::ReportedJob told;
    told.offer = job->offer;
    told.offer.ephemeral = job->need();
    told.offer.iteration_estimate = job->iteration_estimate();
    told.lane = job->admitted;
    told.image_offset = job->image_offset;
    told.image_size = job->image_size;
    told.image = job->image_life();
    told.prefix_wanted = job->prefix_wanted;
    told.pinned = job->journal && job->journal->is_pinned();
    told.over = job->closing;
    told.quarantined = job->quarantined.has_value();
    told.iterations = job->iterations;
    told.busy = job->busy;
    told.uncounted = job->uncounted;
    told.measured = job->measured;
    told.learnt = job->learnt;
    if (job->lane != nullptr) {
      told.turn = job->lane->turn();
      told.paused = job->lane->is_paused();
    } else {
      told.ready = !job->queue.empty() || watcher_.watch(*job) || job->guard.restore_pending;
    }
    report.jobs.push_back(std::move(told));
  }
  lanes_.report(report);
  return report;
}

}  // namespace laneway::service
