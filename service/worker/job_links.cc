#include "service/worker/job_links.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "service/worker/jobs/job_lane.h"
#include "service/worker/jobs/ring_work.h"
#include "service/worker/state/job_undo.h"

namespace laneway::service {
namespace {

// A link of a predecessor's that joins its job again: an answer that the predecessor wrote and did
// not count is counted, and bytes that it was writing over the state are to be written again.
void recover_link(WorkerJob& job, Link& link) LW_REQUIRES(kBookkeeping) {
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

}  // namespace

Status JobLinks::add(const JobHandle& job, uint32_t number, bool owners,
                     std::unique_ptr<RingServer> ring) {
  {
    const BookkeepingLock lock(context_.mutex);
    if (Status open = job->check_open(); !open) {
      ring->close(job->over());
      return open;
    }
    if (job->links.size() >= limits::kMaxLinksPerJob) {
      return Error{ErrorCode::refused, "job '" + job->name + "' has " +
                                           std::to_string(job->links.size()) +
                                           " clients, which is the limit: close one of them first"};
    }
    if (Status started = watcher_.start(); !started) return started;
    auto link = std::make_shared<Link>(number, watcher_.next_key(), owners, std::move(ring));
    if (job->recovered) recover_link(*job, *link);
    watcher_.add(*link, job);
    job->links.push_back(link);
    if (job->lane != nullptr) {
      job->lane->link_added(*link);
      job->lane->work_arrived();
    }
  }
  attend(job);
  return {};
}

bool JobLinks::has(const WorkerJob& job, uint32_t link) {
  const BookkeepingLock lock(context_.mutex);
  return job.find_link(link) != nullptr;
}

void JobLinks::drop(const JobHandle& job, uint32_t number) {
  std::shared_ptr<Link> dropped;  // destroyed without the mutex
  bool unwritten = false;
  {
    const BookkeepingLock lock(context_.mutex);
    const auto found = std::find_if(job->links.begin(), job->links.end(),
                                    [number](const auto& link) { return link->number == number; });
    if (found == job->links.end()) return;
    dropped = *found;
    // What did not fit its lane, or is to be done before all else, has nobody who wants it.
    for (const auto& work : dropped->works) {
      const auto queued = std::find(job->queue.begin(), job->queue.end(), work);
      if (queued == job->queue.end()) continue;
      unwritten = work->is_write();
      job->queue.erase(queued);
    }
    watcher_.unwatch(*job);
    if (job->lane != nullptr) job->lane->link_dropped(*dropped);
    watcher_.forget(*dropped);
    job->links.erase(found);
    if (unwritten && undo_write(context_, *job)) {
      job->journal->take_back();
      unwritten = false;
    }
    if (unwritten) jobs_.fail(*job, half_written(*job));
  }
  if (unwritten) context_.events.post(lanes::JobEnded{.job = job->id});
  attend(job);
}

Status JobLinks::add_segment(WorkerJob& job, uint32_t link, uint32_t segment,
                             memory::SharedMemory memory) {
  auto shared = std::make_shared<memory::SharedMemory>(std::move(memory));
  const BookkeepingLock lock(context_.mutex);
  Link* const found = job.find_link(link);
  if (found == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "job '" + job.name + "' has no link numbered " + std::to_string(link)};
  }
  const bool known = found->segments.contains(segment);
  if (!known && found->segments.size() >= limits::kMaxSegmentsPerLink) {
    return Error{ErrorCode::refused, "a client of job '" + job.name + "' has " +
                                         std::to_string(found->segments.size()) +
                                         " segments, which is the limit: drop one of them first"};
  }
  found->segments[segment].swap(shared);  // what was there is unmapped without the mutex
  return {};
}

void JobLinks::drop_segment(WorkerJob& job, uint32_t link, uint32_t segment) {
  std::shared_ptr<memory::SharedMemory> dropped;  // unmapped without the mutex
  const BookkeepingLock lock(context_.mutex);
  Link* const found = job.find_link(link);
  if (found == nullptr) return;
  const auto at = found->segments.find(segment);
  if (at == found->segments.end()) return;
  dropped = std::move(at->second);
  found->segments.erase(at);
}

void JobLinks::attend(const JobHandle& job) {
  while (true) {
    std::shared_ptr<Work> access;
    {
      const BookkeepingLock lock(context_.mutex);
      // A turn looks for itself.
      if (job->closing || job->lane != nullptr || job->recovered) return;
      const bool waiting = job->phase == WorkerJob::Phase::waiting;
      if (waiting && !job->running) access = job->take_access(context_.outside);
      if (access == nullptr && !watcher_.watch(*job) && job->queue.empty()) return;
      if (access != nullptr) job->running = true;
    }
    if (access == nullptr) break;
    Status status = access->prepare();
    if (status) status = device_.access_state(*job, *access);
    access->complete(std::move(status));
    const BookkeepingLock lock(context_.mutex);
    job->running = false;
    if (job->closing) job->close_links();
    job->changed.notify_all();
  }
  context_.events.post(lanes::WorkReady{.job = job->id});
}

}  // namespace laneway::service
