// StreamLane: a lane of a device with a memory::Stream: all of DeviceLane except enter and leave.
// Inputs and outputs pass through pinned memory (adaptor/device/staging.h); bytes without room
// there are copied while the caller waits. Includes nothing of torch.
//
// One thread at a time. Its enqueued iterations may outlive it; they must be destroyed before the
// device.
#pragma once

#include <atomic>
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

// `status` for callers of a lane: the device's own failures become device_lost.
Status as_device_status(Status status);

class StreamLane : public DeviceLane {
 public:
  // `device` and `clock` must outlive the lane.
  StreamLane(memory::Device& device, std::unique_ptr<memory::Stream> stream, const Clock& clock);
  // The destructor waits for the stream.
  ~StreamLane() override;
  StreamLane(const StreamLane&) = delete;
  StreamLane& operator=(const StreamLane&) = delete;

  // A lane that must wait for the copy may override it.
  Status upload(void* to_device, const void* from_host, Bytes bytes) override;
  Status download(void* to_host, const void* from_device, Bytes bytes) final;
  // As upload may be.
  Status save(void* to_host, const void* from_device, Bytes bytes) override;
  Status mark(std::atomic<uint64_t>& at, uint64_t value) override;
  Status wait_for(memory::Event& event) override;
  Status node_enqueued() final;
  Status recording_launched() final;
  std::unique_ptr<lanes::EnqueuedIteration> enqueue() final;
  void drop_downloads() final;
  Status drain() final;

  memory::Stream& stream() { return *stream_; }
  const RunAhead& run_ahead() const { return run_ahead_; }
  const Staging& staging() const { return *staging_; }

 protected:
  // For enter, which cannot fail: from refuse to accept, every call of the lane returns this error.
  void refuse(Error error) { refusal_ = std::move(error); }
  void accept() { refusal_ = {}; }

 private:
  class StreamIteration;
  struct Download {
    void* to_host = nullptr;
    const std::byte* staged = nullptr;
    Bytes bytes;
  };
  // The copies of the iteration that is being enqueued.
  struct Copies {
    Staging::Batch batch;
    std::vector<Download> downloads;
    std::vector<Download> saved;  // since the last mark, which brings them to their places
    std::vector<std::unique_ptr<std::byte[]>>
        unpinned;  // buffers of downloads without room in the batch
  };

  // Calls `call`; when the stream's queue is full, waits and calls it again.
  Status enqueue(const std::function<Status()>& call);
  Status synchronize();
  // What run-ahead says; when the stream's queue is full for its mark, waits instead.
  Status marked(Status status);

  memory::Device& device_;
  const std::unique_ptr<memory::Stream> stream_;
  const std::shared_ptr<Staging> staging_;  // shared with enqueued iterations
  RunAhead run_ahead_;
  Copies copies_;
  Status refusal_;
};

}  // namespace laneway::adaptor
