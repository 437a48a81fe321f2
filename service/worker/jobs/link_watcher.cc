#include "service/worker/jobs/link_watcher.h"

#include <utility>
#include <vector>

#include "base/check.h"

namespace laneway::service {

LinkWatcher::~LinkWatcher() { LW_CHECK(!thread_.joinable(), "the watcher is stopped before"); }

Status LinkWatcher::start() {
  if (poll_ != nullptr) return {};
  auto made = EventPoll::make();
  if (!made) return made.error();
  poll_ = std::move(made).value();
  thread_ = std::thread([this] { run(); });
  return {};
}

void LinkWatcher::add(const Link& link, const JobHandle& job) {
  LW_CHECK(poll_ != nullptr, "the watcher runs before there is a link");
  jobs_[link.key] = job;
}

bool LinkWatcher::watch(WorkerJob& job) {
  if (job.closing || job.links.empty()) return false;
  bool ready = false;
  for (const auto& link : job.links) {
    if (!link->watched) {
      const Status added = poll_->add(link->ring->wake_descriptor(), link->key);
      LW_CHECK(added.ok(), "a link's descriptor can be waited for");
      link->watched = true;
    }
    ready = !link->ring->arm() || ready;
  }
  if (ready) unwatch(job);
  return ready;
}

void LinkWatcher::unwatch(WorkerJob& job) {
  for (const auto& link : job.links) {
    if (!link->watched) continue;
    poll_->remove(link->ring->wake_descriptor());
    link->ring->disarm();
    link->watched = false;
  }
}

void LinkWatcher::run() {
  while (true) {
    const std::vector<uint64_t> keys = poll_->wait();
    std::vector<JobHandle> jobs;
    {
      const BookkeepingLock lock(mutex_);
      if (stops_) return;
      for (const uint64_t key : keys) {
        const auto found = jobs_.find(key);
        if (found == jobs_.end()) continue;
        if (JobHandle job = found->second.lock()) jobs.push_back(std::move(job));
      }
    }
    for (const JobHandle& job : jobs) attend_(job);
  }
}

void LinkWatcher::stop() {
  {
    const BookkeepingLock lock(mutex_);
    stops_ = true;
    if (poll_ != nullptr) poll_->wake();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace laneway::service
