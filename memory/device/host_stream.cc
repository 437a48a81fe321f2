#include "memory/device/host_stream.h"

#include <utility>

#include "memory/device/limits.h"

namespace laneway::memory {

HostStream::HostStream(HostMemory& memory, CopyEngine& engine)
    : WorkStream(memory, engine), thread_([this] { run(); }) {}

HostStream::~HostStream() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Status HostStream::enqueue(Work work) {
  const MutexLock lock(mutex_);
  if (queue_.size() >= limits::kMaxStreamQueue) return stream_is_full();
  queue_.push_back(std::move(work));
  changed_.notify_all();
  return {};
}

Status HostStream::synchronize() {
  auto reached = std::make_shared<Completion>();
  if (Status enqueued = enqueue({nullptr, [reached] { reached->complete(); }}); enqueued.ok()) {
    reached->wait();
    return {};
  }
  const MutexLock lock(mutex_);  // full: whatever is there now is gone when the queue is empty
  while (!queue_.empty()) changed_.wait(mutex_);
  return {};
}

void HostStream::run() {
  while (true) {
    Work work;
    {
      const MutexLock lock(mutex_);
      while (queue_.empty() && !ending_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
    }
    if (work.after != nullptr) work.after->wait();
    work.run();
    const MutexLock lock(mutex_);
    queue_.pop_front();
    if (queue_.empty()) changed_.notify_all();
  }
}

}  // namespace laneway::memory
