#include "service/worker/common/task_thread.h"

#include <utility>

#include "base/clock.h"

namespace laneway::service {

TaskThread::~TaskThread() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void TaskThread::post(std::function<void()> task) {
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

bool TaskThread::run_if_idle(const std::function<void()>& task) {
  {
    MutexLock lock(mutex_);
    if (busy_ || !tasks_.empty()) return false;
    busy_ = true;
  }
  task();
  MutexLock lock(mutex_);
  busy_ = false;
  changed_.notify_all();
  return true;
}

void TaskThread::wait_idle() {
  MutexLock lock(mutex_);
  while (busy_ || !tasks_.empty()) changed_.wait(mutex_);
}

bool TaskThread::wait_idle_for(Duration most) {
  const SteadyClock clock;
  const TimePoint until = clock.now() + most;
  MutexLock lock(mutex_);
  while (busy_ || !tasks_.empty()) {
    const Duration left = until - clock.now();
    if (left.ns() <= 0) return false;
    changed_.wait_for(mutex_, left);
  }
  return true;
}

void TaskThread::run() {
  while (true) {
    {
      std::function<void()> task;
      {
        MutexLock lock(mutex_);
        while (!stopping_ && (tasks_.empty() || busy_)) changed_.wait(mutex_);
        if (stopping_) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        busy_ = true;
      }
      task();
    }
    MutexLock lock(mutex_);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace laneway::service
