// LinkWatcher: waits for the first request of jobs that have no turn (while one is open, its lane
// looks for requests itself). It has a thread of its own, from the first link on, which calls
// `attend` for each job with a request.
//
// Thread-safe: guarded by the worker's mutex, which is not held while `attend` runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "base/result.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/common/event_poll.h"
#include "service/worker/jobs/link.h"
#include "service/worker/jobs/worker_job.h"

namespace laneway::service {

class LinkWatcher {
 public:
  using Attend = std::function<void(const JobHandle& job)>;

  // The mutex, and what `attend` uses, must outlive the watcher.
  LinkWatcher(BookkeepingMutex& mutex, Attend attend) : mutex_(mutex), attend_(std::move(attend)) {}
  ~LinkWatcher();  // stop was called
  LinkWatcher(const LinkWatcher&) = delete;
  LinkWatcher& operator=(const LinkWatcher&) = delete;

  // Starts the thread, unless it runs. An error when the process has no descriptors left.
  Status start() LW_REQUIRES(kBookkeeping);
  // A key that no other link of the worker has.
  uint64_t next_key() LW_REQUIRES(kBookkeeping) { return ++last_key_; }
  // Requires: start succeeded.
  void add(const Link& link, const JobHandle& job) LW_REQUIRES(kBookkeeping);
  // Requires: the link is not watched.
  void forget(const Link& link) LW_REQUIRES(kBookkeeping) { jobs_.erase(link.key); }

  // Watches all links of the job, unless one has a request already: true then, and none is watched.
  // A job that takes no further work is not watched.
  bool watch(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  void unwatch(WorkerJob& job) LW_REQUIRES(kBookkeeping);

  // Ends the thread, when `attend` has returned; without the mutex, not from `attend`.
  void stop() LW_EXCLUDES(kBookkeeping);

 private:
  void run();

  BookkeepingMutex& mutex_;
  const Attend attend_;
  uint64_t last_key_ LW_GUARDED_BY(kBookkeeping) = 0;
  std::map<uint64_t, std::weak_ptr<WorkerJob>> jobs_ LW_GUARDED_BY(kBookkeeping);  // by Link::key
  bool stops_ LW_GUARDED_BY(kBookkeeping) = false;
  std::unique_ptr<EventPoll> poll_;  // made by start, gone with the watcher
  std::thread thread_;
};

}  // namespace laneway::service
