// RunAhead: keeps the CPU from enqueuing much more than limits::kRunAhead of work on a stream, so
// that a lane that is to stop has stopped soon after, and never makes the device wait for the CPU.
//
// Every few nodes it leaves a mark (an event) on the stream. How long a node takes is learnt from
// when marks are seen done: the device was busy between two of them if a further mark was waiting
// all the time, so that the time between them is that of the nodes between them. If it had caught
// up, the time since they were enqueued is an upper bound; while a mark is not done, the time that
// passed is a lower one. No event is timed, and a device that keeps up is never waited for.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "memory/device/device.h"

namespace laneway::adaptor {

class RunAhead {
 public:
  // All outlive it.
  RunAhead(memory::Device& device, memory::Stream& stream, const Clock& clock)
      : device_(device), stream_(stream), clock_(clock) {}

  // A node was enqueued. Waits for the oldest mark while the work behind it, which keeps the device
  // busy meanwhile, is estimated at more than limits::kRunAhead, or limits::kMaxRunAheadMarks are
  // there. The stream's error if something failed.
  Status node_enqueued();
  // Everything enqueued is done: somebody waited for the stream.
  void drained();

  // For tests and figures: nodes behind the newest mark that is known to be done; what a node is
  // taken to need; how often it waited.
  uint64_t nodes_ahead() const { return marked_nodes_ + unmarked_nodes_; }
  Duration node_time() const { return Duration(static_cast<int64_t>(node_ns_)); }
  uint64_t waits() const { return waits_; }

 private:
  struct Mark {
    std::unique_ptr<memory::Event> event;
    uint32_t nodes = 0;  // since the mark before
    TimePoint after;     // when the mark before was left
    TimePoint left;
  };

  Status leave_mark();
  void collect();
  void pop_front();
  void learn(uint64_t nodes, Duration took, bool exact);
  void at_work(TimePoint now);
  bool too_far() const;

  memory::Device& device_;
  memory::Stream& stream_;
  const Clock& clock_;
  std::deque<Mark> marks_;
  std::vector<std::unique_ptr<memory::Event>> spare_;
  uint64_t marked_nodes_ = 0;    // of all marks
  uint32_t unmarked_nodes_ = 0;  // behind the newest
  uint32_t nodes_per_mark_ = 1;
  TimePoint last_mark_;
  double node_ns_ = 0;  // 0: nothing is known yet
  // When a mark was last seen done, while the device has been busy ever since.
  TimePoint busy_since_;
  bool busy_ = false;
  uint64_t waits_ = 0;
};

}  // namespace laneway::adaptor
