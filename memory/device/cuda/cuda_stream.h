// CudaStream: a stream of the driver's, of the whole device or of a partition of it. It never waits
// for the default stream, nor that for it.
//
// Copies from and to pinned memory return at once. Memory of the CPU's that is not pinned goes
// through the driver's own: a copy to the device returns when the bytes were read, a copy to the
// host when they are there.
//
// The driver's queue holds about a thousand pieces of work; who enqueues more waits there for the
// device (Capabilities::full_queue_waits), so limits::kMaxStreamQueue is only met where it does
// not. What others enqueue on native() (LibTorch) is in the order of the stream, but not counted.
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
  // Takes the stream over. Pool blocks and events outlive it.
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
  // Functions of different streams may wait for each other: one must not wait for another's.
  // They are not called any more once the device failed.
  Status host_function(std::function<void()> function) override;
  Status synchronize() override;

 private:
  // Functions that the device has yet to call, in their order.
  struct HostCalls {
    Mutex mutex;
    std::deque<std::function<void()>> waiting LW_GUARDED_BY(mutex);
  };
  // The event marks that everything up to the count is done.
  struct Mark {
    uint64_t count = 0;
    CUevent event = nullptr;
  };

  static void call_next(void* calls);

  // `enqueue` calls the driver; counted when it succeeded.
  template <class Enqueue>
  Status run(const char* attempted, Enqueue enqueue);
  // Looks at the marks when the queue seems full.
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
  uint64_t done_ = 0;  // at least so many
  std::deque<Mark> marks_;
};

}  // namespace laneway::memory
