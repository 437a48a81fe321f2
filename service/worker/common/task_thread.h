// TaskThread: a thread that does what it is given, in order. Thread-safe. Tasks that nobody came to
// are dropped with it; the one that runs ends first.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "base/time.h"

namespace laneway::service {

class TaskThread {
 public:
  TaskThread() : thread_([this] { run(); }) {}
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void post(std::function<void()> task) LW_EXCLUDES(mutex_);
  // Does it on the calling thread, if nothing else is to be done; false and nothing happens
  // otherwise. It saves a wake-up. What is posted meanwhile waits for it.
  bool run_if_idle(const std::function<void()>& task) LW_EXCLUDES(mutex_);
  // Returns when all that was given before is done. Not from the thread itself.
  void wait_idle() LW_EXCLUDES(mutex_);
  // The same, at most so long; false when something of it is not done then.
  bool wait_idle_for(Duration most) LW_EXCLUDES(mutex_);
  // Whether the caller is that thread, which must not end it.
  bool is_current() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ LW_GUARDED_BY(mutex_);
  bool busy_ LW_GUARDED_BY(mutex_) = false;
  bool stopping_ LW_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace laneway::service
