// CudaStream: a stream of the driver, of the whole device or of a partition of it. It never waits
// for the default stream, nor does the default stream wait for it.
//
// Copies from and to pinned memory return at once. CPU memory that is not pinned is copied through
// the driver's own pinned memory: a copy to the device returns when the bytes were read, a copy to
// the host when they have arrived.
//
// The driver's queue holds about a thousand pieces of work; a thread that enqueues more waits in
// the driver (Capabilities::full_queue_waits), so limits::kMaxStreamQueue is reached only where the
// driver does not wait. Work that LibTorch enqueues on native() is in the order of the stream, but
// is not counted.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "base/mutex.h"
#include "memory/device/block_ranges.h"
#include "memory/device/cuda/cuda_event_pool.h"
#include "memory/device/device.h"

namespace laneway::memory {

class CudaStream final : public Stream {
 public:
  // Takes ownership of the stream. `blocks` and `events` must outlive it.
  CudaStream(const BlockRanges& blocks, CudaEventPool& events, CUstream stream);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CUstream native() const { return stream_; }

  Status copy_to_device(void* to, const void* from_host, Bytes bytes) override;
  Status copy_to_host(void* to_host, const void* from, Bytes bytes) override;
  // The two ranges must not overlap.
  Status copy_on_device(void* to, const void* from, Bytes bytes) override;
  Status fill(void* to, std::byte value, Bytes bytes) override;
  Status record(Event& event) override;
  Status wait(const Event& event) override;
  // The driver may call the functions of several streams one after the other, so a function must
  // not wait for a function of another stream. After the device failed, functions are not called
  // any more.
  Status host_function(std::function<void()> function) override;
  Status synchronize() override;

 private:
  // The functions that the device has not called yet, in their order.
  struct HostCalls {
    Mutex mutex;
    std::deque<std::function<void()>> waiting LW_GUARDED_BY(mutex);
  };
  // When the event is done, the first `count` pieces of work are.
  struct Mark {
    uint64_t count = 0;
    CUevent event = nullptr;
  };

  static void call_next(void* calls);

  // `enqueue` calls the driver; a call that succeeded is counted.
  template <class Enqueue>
  Status run(const char* attempted, Enqueue enqueue);
  // Queries the marks when the queue seems full.
  Status require_room();
  void forget_done();
  void set_mark();
  void all_done();

  const CudaContext& context_;
  const CudaDriver& driver_;
  const BlockRanges& blocks_;
  CudaEventPool& events_;
  const CUstream stream_;
  std::unique_ptr<HostCalls> host_calls_;
  uint64_t enqueued_ = 0;
  uint64_t done_ = 0;  // a lower bound
  std::deque<Mark> marks_;
};

}  // namespace laneway::memory
