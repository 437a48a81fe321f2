// StreamLane: what a lane has of a device that it reaches over a memory::Stream: everything of
// DeviceLane but entering. Inputs and outputs pass through pinned memory
// (adaptor/device/staging.h); what finds no room there is copied while the caller waits. Names
// nothing of torch.
//
// One thread at a time. Its enqueued iterations may outlive it, and end before the device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "adaptor/device/device_lane.h"
#include "adaptor/device/run_ahead.h"
#include "adaptor/device/staging.h"
#include "base/clock.h"
#include "memory/device/device.h"

namespace laneway::adaptor {

// `status` as callers of a lane see it: the device's own failures are device_lost.
Status as_device_status(Status status);

class StreamLane : public DeviceLane {
 public:
  // `device` and `clock` outlive the lane.
  StreamLane(memory::Device& device, std::unique_ptr<memory::Stream> stream, const Clock& clock);
  // Waits for the stream.
  ~StreamLane() override;
  StreamLane(const StreamLane&) = delete;
  StreamLane& operator=(const StreamLane&) = delete;

  // May be overridden by a lane that has to wait for it.
  Status upload(void* to_device, const void* from_host, Bytes bytes) override;
  Status download(void* to_host, const void* from_device, Bytes bytes) final;
  Status node_enqueued() final;
  std::unique_ptr<lanes::EnqueuedIteration> enqueue() final;
  void drop_downloads() final;
  Status drain() final;

  // While nodes are written down instead of run (adaptor/device/torch_device.h, Recording) no marks
  // are left among them.
  void set_recording(bool on) { recording_ = on; }

  memory::Stream& stream() { return *stream_; }
  const RunAhead& run_ahead() const { return run_ahead_; }
  const Staging& staging() const { return *staging_; }

 protected:
  // For enter, which cannot fail: until accept, everything that a lane is asked for is this error.
  void refuse(Error error) { refusal_ = std::move(error); }
  void accept() { refusal_ = {}; }

 private:
  class StreamIteration;
  struct Download {
    void* to_host = nullptr;
    const std::byte* staged = nullptr;
    Bytes bytes;
  };
  // Of the iteration that is being enqueued.
  struct Copies {
    Staging::Batch batch;
    std::vector<Download> downloads;
    std::vector<std::unique_ptr<std::byte[]>> unpinned;  // of downloads that found no room
  };

  // Again after waiting, when the stream's queue is full.
  Status enqueue(const std::function<Status()>& call);
  Status synchronize();

  memory::Device& device_;
  const std::unique_ptr<memory::Stream> stream_;
  const std::shared_ptr<Staging> staging_;  // shared with enqueued iterations
  RunAhead run_ahead_;
  Copies copies_;
  bool recording_ = false;
  Status refusal_;
};

}  // namespace laneway::adaptor
