#include "service/worker/worker_recovery.h"

#include <algorithm>
#include <utility>

#include "service/worker/limits.h"
#include "service/worker/ring_work.h"
#include "service/worker/worker_lane.h"

namespace laneway::service {

std::vector<JobHandle> WorkerRecovery::recover() {
  std::vector<JobHandle> recovered;
  const BookkeepingLock lock(context_.mutex);
  // The journal does not say which users' bytes a predecessor left in the regions.
  if (lanes_.recover()) jobs_.users_are_unknown();
  for (const auto& [id, job] : jobs_.all()) {
    if (!job->recovered) continue;
    recover(*job);
    job->recovered = false;
    recovered.push_back(job);
  }
  return recovered;
}

void WorkerRecovery::recover(WorkerJob& job) {
  const JobJournal& journal = *job.journal;
  job.iterations = journal.iterations();
  job.busy = journal.busy();
  if (journal.lane().valid()) {
    job.admitted = journal.lane();
    job.image_offset = journal.image_offset();
    job.image_size = journal.image_size();
  }
  if (const auto blamed = journal.blamed()) {
    return jobs_.fail(job, {ErrorCode::device_lost, *blamed + "; the job is not tried again"});
  }
  if (journal.is_placed() && pool_is_new_) {
    return jobs_.fail(job,
                      {ErrorCode::failed,
                       "the worker ended, and the memory of device '" +
                           context_.backend.device().capabilities().name +
                           "' with it, because this platform cannot share it between processes: "
                           "the state of job '" +
                           job.name +
                           "' is lost; make the job again from your last "
                           "state_dict()"});
  }
  if (journal.is_placed()) {
    const Bytes size = job.image_size;
    if (job.image_offset < Bytes() || size < job.torch->layout().total() ||
        size > context_.capacity || job.image_offset > context_.capacity - size) {
      return jobs_.fail(job, {ErrorCode::internal, "the journal's place of the image of job '" +
                                                       job.name + "' is outside of the pool"});
    }
    job.image = context_.pool + job.image_offset.count();
    job.torch->bind_image(job.image);
    job.initial = InitialImage();
    job.phase = WorkerJob::Phase::placed;
  }
  if (journal.is_suspect()) job.suspected = limits::kSuspectIterations;
  const JobRecovery recovery = journal.recover();
  if (recovery.verdict == JobRecovery::Verdict::failed) {
    const auto device = journal.suspected();
    const std::string what = device ? *device + "; at that time" : "the worker died while";
    return jobs_.fail(
        job, {device ? ErrorCode::device_lost : ErrorCode::failed,
              what + " iteration " + std::to_string(job.iterations + 1) + " of job '" + job.name +
                  "' was writing the job's state, which is now neither the former nor "
                  "the next; make the job again from your last state_dict()"});
  }
  if (recovery.verdict != JobRecovery::Verdict::rewrite) return;
  for (const auto& link : job.links) {
    if (!link->rewrite) continue;
    const auto segment = link->segments.find(link->rewrite->segment);
    const std::shared_ptr<RingWork> work = job.free_work(*link);
    work->start(*link->rewrite, nullptr,
                segment != link->segments.end() ? segment->second : nullptr);
    job.queue.push_back(work);
    link->rewrite.reset();
  }
  if (job.queue.empty()) {
    jobs_.fail(job, {ErrorCode::failed,
                     "the worker died while a client's bytes were written over the state of job '" +
                         job.name + "', and the client is gone: make the job again"});
  }
}

void recover_link(WorkerJob& job, Link& link) {
  const JobRecovery recovery = job.journal->recover();
  if (recovery.origin.link != link.number || recovery.origin.sequence != link.ring->done()) return;
  if (recovery.verdict == JobRecovery::Verdict::publish) {
    // The answer is in the slot; the predecessor died before it counted it.
    if (const auto request = link.ring->take()) link.ring->publish(request->sequence);
  } else if (recovery.verdict == JobRecovery::Verdict::rewrite) {
    const auto request = link.ring->take();
    if (request && request->kind == RingKind::write_state) link.rewrite = request;
  }
}

lanes::WorkerReport WorkerRecovery::report() {
  lanes::WorkerReport report;
  const BookkeepingLock lock(context_.mutex);
  for (const auto& [id, job] : jobs_.all()) {
    lanes::ReportedJob told;
    told.offer = job->offer;
    told.offer.ephemeral = job->need();
    told.lane = job->admitted;
    told.image_offset = job->image_offset;
    told.image_size = job->image_size;
    told.placed = job->phase == WorkerJob::Phase::placed;
    told.over = job->closing;
    told.iterations = job->iterations;
    told.busy = job->busy;
    if (job->lane != nullptr) {
      told.turn = job->lane->turn();
    } else {
      told.ready = !job->queue.empty() || watcher_.watch(*job);
    }
    report.jobs.push_back(std::move(told));
  }
  lanes_.report(report);
  return report;
}

}  // namespace laneway::service
