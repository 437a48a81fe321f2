// EnqueuedQueue: the iterations of a lane that are in flight on a device that runs behind. They
// retire in the order in which they were enqueued. One thread at a time: the lane's, which holds
// `busy` as long as the queue is not empty.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "base/time.h"
#include "lanes/run/enqueued_iteration.h"
#include "service/worker/images/image_use.h"
#include "service/worker/run/work.h"
#include "service/worker/run/worker_graph.h"

namespace laneway::service {

class EnqueuedQueue {
 public:
  struct Entry {
    std::shared_ptr<Work> work;
    GraphHandle graph;  // work that is complete has none
    std::unique_ptr<lanes::EnqueuedIteration> enqueued;
    TimePoint start;  // when its nodes began to be enqueued
    DeviceIteration ran = {};
  };

  struct Retired {
    Entry entry;
    Status status;
    // The time that it had to itself: from its start, or from the end of the one before it if that
    // was later. So the times of a turn add up.
    TimePoint start;
    Duration took;
  };

  // The clock must outlive the queue.
  explicit EnqueuedQueue(const Clock& clock) : clock_(clock) {}

  bool empty() const { return entries_.empty(); }
  // Holds limits::kMaxEnqueued.
  bool full() const;
  // Requires: not full.
  void push(Entry entry);
  // Requires: not empty. Whether retire_oldest would not wait.
  bool oldest_is_done() const { return entries_.front().enqueued->done(); }
  // Requires: not empty. Waits for the oldest and takes it out.
  Retired retire_oldest();

 private:
  const Clock& clock_;
  std::deque<Entry> entries_;  // oldest first
  TimePoint last_retirement_;
};

}  // namespace laneway::service
