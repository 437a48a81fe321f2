// The worker's half that goes on where a predecessor died, and that tells a new core where it
// stands.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "service/worker/ring_work.h"
#include "service/worker/worker.h"

namespace laneway::service {

void Worker::recover() {
  std::vector<JobHandle> jobs;
  {
    MutexLock lock(mutex_);
    // Whose bytes a predecessor left in the regions is not known.
    recover_lanes();
    many_users_ = many_users_ || !lanes_.empty();
    for (const auto& [id, job] : jobs_) {
      if (!job->recovered) continue;
      recover_job(*job);
      job->recovered = false;
      jobs.push_back(job);
    }
  }
  for (const JobHandle& job : jobs) attend_links(job);
}

void Worker::recover_lanes() {
  if (journal_ == nullptr) return;
  for (const Journal::Region& region : journal_->regions()) {
    last_region_ = std::max(last_region_, region.region);
    if (region.offset < Bytes() || region.size <= Bytes() || region.size > capacity_ ||
        region.offset > capacity_ - region.size) {
      log_error("the journal has a region outside of the pool: it is left out");
      journal_->close_region(region.lane);
      continue;
    }
    auto lane = std::make_unique<WorkerLane>(*this, region.lane, backend_.make_lane());
    lane->set_region(region.region, pool_ + region.offset.count(), region.size);
    lanes_[region.lane] = std::move(lane);
  }
}

void Worker::recover_job(WorkerJob& job) {
  const JobJournal& journal = *job.journal;
  job.iterations = journal.iterations();
  job.busy = journal.busy();
  if (journal.lane().valid()) {
    job.admitted = journal.lane();
    job.image_offset = journal.image_offset();
    job.image_size = journal.image_size();
  }
  if (const auto blamed = journal.blamed()) {
    return fail_job(job, {ErrorCode::device_lost, *blamed + "; the job is not tried again"});
  }
  if (journal.is_placed() && pool_is_new_) {
    return fail_job(job, {ErrorCode::failed,
                          "the worker ended, and the memory of device '" +
                              backend_.device().capabilities().name +
                              "' with it, because this platform cannot share it between processes: "
                              "the state of job '" +
                              job.name +
                              "' is lost; make the job again from your last "
                              "state_dict()"});
  }
  if (journal.is_placed()) {
    const Bytes size = job.image_size;
    if (job.image_offset < Bytes() || size < job.torch->layout().total() || size > capacity_ ||
        job.image_offset > capacity_ - size) {
      return fail_job(job, {ErrorCode::internal, "the journal's place of the image of job '" +
                                                     job.name + "' is outside of the pool"});
    }
    job.image = pool_ + job.image_offset.count();
    job.torch->bind_image(job.image);
    job.initial = InitialImage();
    job.phase = WorkerJob::Phase::placed;
  }
  if (journal.is_suspect()) job.suspected = limits::kSuspectIterations;
  const JobRecovery recovery = journal.recover();
  if (recovery.verdict == JobRecovery::Verdict::failed) {
    const auto device = journal.suspected();
    const std::string what = device ? *device + "; at that time" : "the worker died while";
    return fail_job(
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
    fail_job(job, {ErrorCode::failed,
                   "the worker died while a client's bytes were written over the state of job '" +
                       job.name + "', and the client is gone: make the job again"});
  }
}

void Worker::recover_link(WorkerJob& job, Link& link) {
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

void Worker::fail_job(WorkerJob& job, Error reason) {
  log_warning(reason.message);
  if (!job.end_reason) job.end_reason = std::move(reason);
  job.closing = true;
  unwatch_links(job);
  if (!job.running) job.close_links();
}

Bytes Worker::need(const WorkerJob& job) {
  MutexLock lock(mutex_);
  return job.need();
}

lanes::WorkerReport Worker::report() {
  lanes::WorkerReport report;
  MutexLock lock(mutex_);
  for (const auto& [id, job] : jobs_) {
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
      told.turn = job->lane->turn_->id;
    } else {
      told.ready = !job->queue.empty() || watch_links(*job);
    }
    report.jobs.push_back(std::move(told));
  }
  for (const auto& [id, lane] : lanes_) {
    const Bytes offset(lane->base_ - pool_);
    report.regions.push_back(
        {.region = lane->region(), .lane = id, .offset = offset, .size = lane->size_});
  }
  report.last_turn = last_turn_;
  report.last_region = last_region_;
  return report;
}

}  // namespace laneway::service
