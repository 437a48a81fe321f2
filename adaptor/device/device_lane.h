// DeviceLane: what a lane has of its device: the stream on which its iterations run, the memory
// through which inputs and outputs pass, the bound on how far the CPU runs ahead. Names nothing of
// torch. Made by a Backend, used by one thread at a time: the one that has the lane.
//
// The CPU's lane computes when it is called, so its iterations are complete when they are enqueued.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/enqueued_iteration.h"
#include "lanes/graph/graph.h"
#include "memory/lane_arena.h"

namespace laneway::adaptor {

class DeviceLane {
 public:
  // Drained before.
  virtual ~DeviceLane() = default;

  // Of this lane alone, also when it is gone and another one lies where it lay.
  uint64_t number() const { return number_; }

  // Between the two, torch's allocations on the device that this thread makes come from `arena`,
  // and its work goes to the lane's stream, under the graph's numeric context. One lane at a time
  // per thread; the arena begins and ends its iterations in between.
  virtual void enter(memory::LaneArena& arena, const lanes::NumericContext& context) = 0;
  virtual void leave() = 0;
  // Over the addresses of the lane's allocations since enter, in their order.
  virtual uint64_t address_hash() const = 0;

  // Copies in the order of the stream. `from_host` may be reused on return; `to_host` is written
  // when the enqueued iteration is retired.
  virtual Status upload(void* to_device, const void* from_host, Bytes bytes) = 0;
  virtual Status download(void* to_host, const void* from_device, Bytes bytes) = 0;
  // A node was enqueued. Waits while too much is (limits::kRunAhead). Error device_lost.
  virtual Status node_enqueued() = 0;
  // Everything enqueued so far, with the downloads since the last call. Never null.
  virtual std::unique_ptr<lanes::EnqueuedIteration> enqueue() = 0;
  // Forgets the downloads since the last enqueue, after waiting for the stream: an iteration was
  // given up.
  virtual void drop_downloads() = 0;
  // Returns when everything enqueued is done.
  virtual Status drain() = 0;

 private:
  static uint64_t next_number() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }

  const uint64_t number_ = next_number();
};

// The lane that this thread has entered; null outside.
DeviceLane* current_lane();

}  // namespace laneway::adaptor
