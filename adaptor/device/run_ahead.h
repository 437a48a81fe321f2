// RunAhead: keeps the CPU from enqueuing much more than limits::kRunAhead of work on a stream, so
// that a lane stops soon after it must; it never makes the device wait for the CPU.
//
// Every few nodes it leaves a mark (an event) on the stream. The time of a node is learnt from the
// moments at which marks are seen done. If a further mark was pending all the time between two
// marks, the device was busy, and the time between them is that of the nodes between them. If the
// device had caught up, the time since the nodes were enqueued is an upper bound; while a mark is
// pending, the time that has passed is a lower bound. No event is timed, and the CPU never waits
// for a device that keeps up.
//
// A recording that is launched is the work of many nodes. It has a mark of its own, and a time of
// its own, learnt in the same way: it says nothing about single nodes.
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
  // All arguments must outlive the object.
  RunAhead(memory::Device& device, memory::Stream& stream, const Clock& clock)
      : device_(device), stream_(stream), clock_(clock) {}

  // Must be called after each node that was enqueued. Waits for the oldest mark while the work
  // behind that mark, which keeps the device busy meanwhile, is estimated at more than
  // limits::kRunAhead, or limits::kMaxRunAheadMarks marks are pending, or a recording is among that
  // work and no recording's time is known yet. Returns the stream's error if it failed.
  Status node_enqueued();
  // The same for a recording that was launched: it counts as no node.
  Status recording_launched();
  // Must be called when the stream was told to wait for work of others: how long what comes next
  // takes says nothing of its own time.
  void stream_waits() { unmarked_.waits = true; }
  // Must be called when a caller has waited for the stream: all enqueued work is complete.
  void drained();

  // For tests and figures: the nodes behind the newest mark that is known to be done; the estimated
  // time of a node; the number of waits.
  uint64_t nodes_ahead() const { return marked_.nodes + unmarked_.nodes; }
  Duration node_time() const { return Duration(static_cast<int64_t>(node_ns_)); }
  uint64_t waits() const { return waits_; }

 private:
  struct Work {
    uint64_t nodes = 0;
    uint64_t recordings = 0;
    bool waits = false;  // for work of others
  };
  struct Mark {
    std::unique_ptr<memory::Event> event;
    Work work;        // since the mark before
    TimePoint after;  // the time of the mark before
    TimePoint left;
  };

  // Leaves a mark, and waits while there is too much behind the oldest.
  Status mark();
  Status leave_mark();
  void collect();
  void pop_front();
  void learn(const Work& done, Duration took, bool exact);
  void at_work(TimePoint now);
  bool too_far() const;

  memory::Device& device_;
  memory::Stream& stream_;
  const Clock& clock_;
  std::deque<Mark> marks_;
  std::vector<std::unique_ptr<memory::Event>> spare_;
  Work marked_;    // of all marks
  Work unmarked_;  // behind the newest
  uint32_t nodes_per_mark_ = 1;
  TimePoint last_mark_;
  double node_ns_ = 0;       // 0: not known yet
  double recording_ns_ = 0;  // 0: not known yet
  // The time when a mark was last seen done, if the device has been busy ever since.
  TimePoint busy_since_;
  bool busy_ = false;
  uint64_t waits_ = 0;
};

}  // namespace laneway::adaptor
