// The worker's half that knows of other processes: links and their segments, and the watcher, a
// thread that waits for the first request of a job that has no turn.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "service/worker/ring_work.h"
#include "service/worker/worker.h"

namespace laneway::service {
namespace {

Link* find_link(const WorkerJob& job, uint32_t number) LW_REQUIRES(kBookkeeping) {
  for (const auto& link : job.links) {
    if (link->number == number) return link.get();
  }
  return nullptr;
}

}  // namespace

Status Worker::add_link(const JobHandle& job, uint32_t number, std::unique_ptr<RingServer> ring) {
  {
    MutexLock lock(mutex_);
    if (Status open = check_open(*job); !open) {
      ring->close(job->over());
      return open;
    }
    if (job->links.size() >= limits::kMaxLinksPerJob) {
      return Error{ErrorCode::refused, "job '" + job->name + "' has " +
                                           std::to_string(job->links.size()) +
                                           " clients, which is the limit: close one of them first"};
    }
    if (watcher_poll_ == nullptr) {
      auto made = EventPoll::make();
      if (!made) return made.error();
      watcher_poll_ = std::move(made).value();
      watcher_ = std::thread([this] { run_watcher(); });
    }
    auto link = std::make_shared<Link>(number, ++last_link_, std::move(ring));
    if (job->recovered) recover_link(*job, *link);
    link_jobs_[link->key] = job;
    job->links.push_back(link);
    if (job->lane != nullptr) {
      job->lane->link_added(*link);
      job->lane->work_arrived();
    }
  }
  attend_links(job);
  return {};
}

bool Worker::has_link(const WorkerJob& job, uint32_t link) {
  MutexLock lock(mutex_);
  return find_link(job, link) != nullptr;
}

void Worker::drop_link(const JobHandle& job, uint32_t number) {
  std::shared_ptr<Link> dropped;  // destroyed without the mutex
  bool unwritten = false;
  {
    MutexLock lock(mutex_);
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
    unwatch_links(*job);
    if (job->lane != nullptr) job->lane->link_dropped(*dropped);
    link_jobs_.erase(dropped->key);
    job->links.erase(found);
    if (unwritten) {
      fail_job(*job,
               {ErrorCode::failed,
                "the worker died while a client's bytes were written over the state of job '" +
                    job->name + "', and the client is gone: make the job again"});
    }
  }
  if (unwritten) events_.post(lanes::JobEnded{.job = job->id});
  attend_links(job);
}

Status Worker::add_segment(WorkerJob& job, uint32_t link, uint32_t segment,
                           memory::SharedMemory memory) {
  auto shared = std::make_shared<memory::SharedMemory>(std::move(memory));
  MutexLock lock(mutex_);
  Link* const found = find_link(job, link);
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

void Worker::drop_segment(WorkerJob& job, uint32_t link, uint32_t segment) {
  std::shared_ptr<memory::SharedMemory> dropped;  // unmapped without the mutex
  MutexLock lock(mutex_);
  Link* const found = find_link(job, link);
  if (found == nullptr) return;
  const auto at = found->segments.find(segment);
  if (at == found->segments.end()) return;
  dropped = std::move(at->second);
  found->segments.erase(at);
}

bool Worker::watch_links(WorkerJob& job) {
  if (job.closing || job.links.empty()) return false;
  bool ready = false;
  for (const auto& link : job.links) {
    if (!link->watched) {
      const Status added = watcher_poll_->add(link->ring->wake_descriptor(), link->key);
      LW_CHECK(added.ok(), "a link's descriptor can be waited for");
      link->watched = true;
    }
    ready = !link->ring->arm() || ready;
  }
  if (ready) unwatch_links(job);
  return ready;
}

void Worker::unwatch_links(WorkerJob& job) {
  for (const auto& link : job.links) {
    if (!link->watched) continue;
    watcher_poll_->remove(link->ring->wake_descriptor());
    link->ring->disarm();
    link->watched = false;
  }
}

void Worker::run_watcher() {
  while (true) {
    const std::vector<uint64_t> keys = watcher_poll_->wait();
    std::vector<JobHandle> jobs;
    {
      MutexLock lock(mutex_);
      if (watcher_stops_) return;
      for (const uint64_t key : keys) {
        const auto found = link_jobs_.find(key);
        if (found == link_jobs_.end()) continue;
        if (JobHandle job = found->second.lock()) jobs.push_back(std::move(job));
      }
    }
    for (const JobHandle& job : jobs) attend_links(job);
  }
}

void Worker::attend_links(const JobHandle& job) {
  while (true) {
    std::shared_ptr<Work> access;
    {
      MutexLock lock(mutex_);
      // A turn looks for itself.
      if (job->closing || job->lane != nullptr || job->recovered) return;
      const bool waiting = job->phase == WorkerJob::Phase::waiting;
      if (waiting && !job->running) access = job->take_access();
      if (access == nullptr && !watch_links(*job) && job->queue.empty()) return;
      if (access != nullptr) job->running = true;
    }
    if (access == nullptr) break;
    Status status = access->prepare();
    if (status) status = access_now(*job, *access);
    access->complete(std::move(status));
    MutexLock lock(mutex_);
    job->running = false;
    if (job->closing) job->close_links();
    job->changed.notify_all();
  }
  events_.post(lanes::WorkReady{.job = job->id});
}

}  // namespace laneway::service
