// How a lane's thread waits for the next piece of work.
#include <algorithm>
#include <atomic>

#include "service/worker/worker.h"
#include "service/worker/worker_lane.h"

namespace laneway::service {

void WorkerLane::wait_for_work(std::optional<Duration> most) {
  Mutex& mutex = worker_.mutex_;
  // What keeps the next request from being taken wakes the lane when it is over; to look at rings
  // until then would be to spin, with the mutex that it waits for.
  if (!turn_ || !job_ || job_->links.empty() || (job_->running && !has_enqueued_) ||
      job_->closing || job_->visitors != 0 || !worker_.may_begin(*this)) {
    most ? static_cast<void>(wake_.wait_for(mutex, *most)) : wake_.wait(mutex);
    return;
  }
  if (!most) {
    // The mutex was released meanwhile: when the turn is another job's, the caller looks again.
    const std::shared_ptr<WorkerJob> job = job_;
    if (spin_for_work() || !turn_ || job_ != job || job_->links.empty()) return;
  }
  bool ready = false;
  for (const auto& link : job_->links) ready = !link->ring->arm() || ready;
  if (!ready) {
    polling_ = true;
    mutex.unlock();
    most ? poll_->wait_for(*most) : poll_->wait();
    mutex.lock();
    polling_ = false;
    if (!most) spin_.slept();
  }
  // The turn may be another job's by now; if there is none, its links are the watcher's.
  if (!job_) return;
  for (const auto& link : job_->links) link->ring->disarm();
}

bool WorkerLane::spin_for_work() {
  Mutex& mutex = worker_.mutex_;
  const uint64_t arrivals = arrivals_.load(std::memory_order_relaxed);
  // A client must run to send something.
  AwaitedThreads others{.threads = worker_.computing_threads_ + 1, .cores = 0};
  watched_ = job_->links;
  for (const auto& link : watched_) others.cores |= link->ring->client_cores();
  mutex.unlock();
  const bool came = spin_.spin(others, TimePoint::never(), [this, arrivals] {
    if (arrivals_.load(std::memory_order_relaxed) != arrivals) return true;
    return std::any_of(watched_.begin(), watched_.end(),
                       [](const auto& link) { return link->ring->ready(); });
  });
  watched_.clear();  // a link that was dropped meanwhile is destroyed here, without the mutex
  mutex.lock();
  return came || arrivals_.load(std::memory_order_relaxed) != arrivals;
}

void WorkerLane::begin_computing(uint32_t threads) {
  worker_.computing_threads_ += threads - threads_;
  threads_ = threads;
  for (const auto& link : job_->links) link->ring->publish_threads(worker_.computing_threads_);
}

}  // namespace laneway::service
