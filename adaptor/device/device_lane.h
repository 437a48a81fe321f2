// DeviceLane: a lane's part of its device: the stream on which its iterations run, the memory
// through which inputs and outputs pass, the bound on how far the CPU runs ahead. Includes nothing
// of torch. A Backend makes it; one thread at a time may use it, the one that owns the lane.
//
// The CPU's lane computes during the calls, so its iterations are complete when they are enqueued.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/run/enqueued_iteration.h"
#include "memory/device/device.h"
#include "memory/lane_arena.h"

namespace laneway::adaptor {

class DeviceLane {
 public:
  // Requires: the lane is drained.
  virtual ~DeviceLane() = default;

  // A number that no other lane of the process has or will have.
  uint64_t number() const { return number_; }

  // Between enter and leave, this thread's torch allocations on the device come from `arena`, and
  // its work goes to the lane's stream, under the graph's numeric context. Requires: the thread has
  // entered no other lane, and the arena's iterations begin and end in between.
  virtual void enter(memory::LaneArena& arena, const lanes::NumericContext& context) = 0;
  virtual void leave() = 0;
  // The thread computes nothing for a while, and is inside the lane again: in between torch has no
  // numeric context of the lane's. What the iteration allocated stays the arena's.
  virtual void suspend() = 0;
  virtual void resume(const lanes::NumericContext& context) = 0;
  // A hash of the addresses of the lane's allocations since enter, in their order.
  virtual uint64_t address_hash() const = 0;

  // Enqueues a copy in the order of the stream. `from_host` may be reused on return; `to_host` is
  // written when the enqueued iteration is retired.
  virtual Status upload(void* to_device, const void* from_host, Bytes bytes) = 0;
  virtual Status download(void* to_host, const void* from_device, Bytes bytes) = 0;
  // Copies in the order of the lane's work into memory of the CPU that outlives the process; and
  // writes a number there behind all that came before it. What the CPU has enqueued says nothing
  // about what was done: where the number is, what was saved before it is there, and where it is
  // not, nothing that was enqueued behind it has begun. The memory must stay until the lane is
  // drained or the process is dead. Here as for lanes whose work is done when it is called.
  // Requires: the lane does not record.
  virtual Status save(void* to_host, const void* from_device, Bytes bytes);
  virtual Status mark(std::atomic<uint64_t>& at, uint64_t value);
  // The lane's work from here on runs behind what the event marks. Here as for lanes whose work is
  // done when it is called. Requires: the lane does not record.
  virtual Status wait_for(memory::Event& event);
  // Must be called after each node that was enqueued. Waits while too much work is enqueued
  // (limits::kRunAhead). Error device_lost.
  virtual Status node_enqueued() = 0;
  // The same after a recording was launched, in the place of its nodes.
  virtual Status recording_launched() = 0;
  // Returns the work enqueued so far as an iteration, with the downloads since the last call. Never
  // null.
  virtual std::unique_ptr<lanes::EnqueuedIteration> enqueue() = 0;
  // For an iteration that was abandoned: waits for the stream, and forgets the downloads since the
  // last enqueue.
  virtual void drop_downloads() = 0;
  // Returns when all enqueued work is complete.
  virtual Status drain() = 0;

  // Whether a Recording records the lane's nodes (adaptor/device/torch_device.h), which sets it.
  // Meanwhile node_enqueued does nothing.
  bool is_recording() const { return recording_; }
  void set_recording(bool on) { recording_ = on; }

 private:
  static uint64_t next_number() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }

  const uint64_t number_ = next_number();
  bool recording_ = false;
};

inline Status DeviceLane::save(void* to_host, const void* from_device, Bytes bytes) {
  std::memcpy(to_host, from_device, static_cast<size_t>(bytes.count()));
  return {};
}

inline Status DeviceLane::mark(std::atomic<uint64_t>& at, uint64_t value) {
  at.store(value, std::memory_order_release);
  return {};
}

inline Status DeviceLane::wait_for(memory::Event& event) { return event.synchronize(); }

// The lane that this thread has entered; null outside.
DeviceLane* current_lane();

}  // namespace laneway::adaptor
