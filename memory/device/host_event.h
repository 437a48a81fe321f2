// HostEvent: an event for devices whose work runs on CPU threads. Each record is a Completion of
// its own, so a later record on another stream does not release a thread that waits for an earlier
// one. Completions outlive the event while enqueued work refers to them. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "memory/device/device.h"

namespace laneway::memory {

// A condition that becomes true once.
class Completion {
 public:
  void complete();
  bool is_complete() const;
  void wait() const;

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool complete_ LW_GUARDED_BY(mutex_) = false;
};

class HostEvent final : public Event {
 public:
  // Returns when the completion is complete: waits for it, or runs the work before it.
  using Drive = std::function<void(const Completion&)>;

  explicit HostEvent(Drive drive) : drive_(std::move(drive)) {}

  EventState query() const override;
  Status synchronize() override;

  // A stream recorded the event: `record` completes when the stream's work so far is complete.
  void set_latest(std::shared_ptr<const Completion> record);
  // The latest record; null when there is none.
  std::shared_ptr<const Completion> latest() const;

 private:
  Drive drive_;
  mutable Mutex mutex_;
  std::shared_ptr<const Completion> latest_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::memory
