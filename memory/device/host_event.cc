#include "memory/device/host_event.h"

namespace laneway::memory {

void Completion::complete() {
  const MutexLock lock(mutex_);
  complete_ = true;
  changed_.notify_all();
}

bool Completion::is_complete() const {
  const MutexLock lock(mutex_);
  return complete_;
}

void Completion::wait() const {
  const MutexLock lock(mutex_);
  while (!complete_) changed_.wait(mutex_);
}

EventState HostEvent::query() const {
  const auto record = latest();
  return record == nullptr || record->is_complete() ? EventState::done : EventState::pending;
}

Status HostEvent::synchronize() {
  if (const auto record = latest(); record != nullptr) drive_(*record);
  return {};
}

void HostEvent::set_latest(std::shared_ptr<const Completion> record) {
  const MutexLock lock(mutex_);
  latest_ = std::move(record);
}

std::shared_ptr<const Completion> HostEvent::latest() const {
  const MutexLock lock(mutex_);
  return latest_;
}

}  // namespace laneway::memory
