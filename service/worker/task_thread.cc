#include "service/worker/task_thread.h"

#include <utility>

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

void TaskThread::wait_idle() {
  MutexLock lock(mutex_);
  while (busy_ || !tasks_.empty()) changed_.wait(mutex_);
}

void TaskThread::run() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      busy_ = false;
      changed_.notify_all();
      while (!stopping_ && tasks_.empty()) changed_.wait(mutex_);
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
    }
    task();
  }
}

}  // namespace laneway::service
