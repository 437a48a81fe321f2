// IterationSender: keeps what lanes ran and tells it to the broker many at a time: when half of its
// room is used, when the oldest has waited for limits::kLongestTraceDelay and another one ends, and
// when asked to (a turn ended). Without a broker they are kept; what has no room is counted.
// Thread-safe.
#pragma once

#include "base/mutex.h"
#include "base/time.h"
#include "service/wire/worker_messages.h"
#include "service/worker/common/iteration_observer.h"
#include "service/worker/process/broker_channel.h"

namespace laneway::service {

class IterationSender final : public IterationObserver {
 public:
  // Outlives the sender.
  explicit IterationSender(BrokerChannel& broker) : broker_(broker) {}

  void iterated(const wire::IterationNote& note) override LW_EXCLUDES(mutex_);
  void send() LW_EXCLUDES(mutex_);

 private:
  BrokerChannel& broker_;
  Mutex mutex_;
  wire::from_worker::Iterations kept_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service
