#include "memory/device/cuda/cuda_stream.h"

#include <utility>

#include "base/check.h"
#include "memory/device/cuda/cuda_event.h"
#include "memory/device/limits.h"
#include "memory/device/work_stream.h"

namespace laneway::memory {
namespace {

// A mark costs a recorded event; so many calls share it.
constexpr uint64_t kCallsPerMark = 4'096;
static_assert(kCallsPerMark * 2 <= limits::kMaxStreamQueue);

CUdeviceptr device_address(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

size_t size_of(Bytes bytes) { return static_cast<size_t>(bytes.count()); }

const CudaEvent& as_cuda_event(const Event& event) {
  const auto* own = dynamic_cast<const CudaEvent*>(&event);
  LW_CHECK(own != nullptr, "an event of another kind of device");
  return *own;
}

}  // namespace

CudaStream::CudaStream(const BlockRanges& blocks, CudaEventPool& events, CUstream stream)
    : context_(events.context()),
      driver_(context_.driver()),
      blocks_(blocks),
      events_(events),
      stream_(stream),
      host_calls_(std::make_unique<HostCalls>()) {}

CudaStream::~CudaStream() {
  [[maybe_unused]] const Status done = synchronize();
  all_done();  // also when the device failed: its events are as good as any then
  const CudaContext::RelaxedScope scope(context_);
  driver_.cuStreamDestroy(stream_);
}

template <class Enqueue>
Status CudaStream::run(const char* attempted, Enqueue enqueue) {
  if (Status room = require_room(); !room.ok()) return room;
  const CudaContext::Scope scope(context_);
  Status done = context_.check(enqueue(), attempted);
  if (done.ok() && ++enqueued_ % kCallsPerMark == 0) set_mark();
  return done;
}

Status CudaStream::copy_to_device(void* to, const void* from_host, Bytes bytes) {
  if (Status inside = blocks_.require("copy to device", to, bytes); !inside.ok()) return inside;
  if (bytes == Bytes(0)) return {};
  return run("copy to device", [&] {
    return driver_.cuMemcpyHtoDAsync(device_address(to), from_host, size_of(bytes), stream_);
  });
}

Status CudaStream::copy_to_host(void* to_host, const void* from, Bytes bytes) {
  if (Status inside = blocks_.require("copy to host", from, bytes); !inside.ok()) return inside;
  if (bytes == Bytes(0)) return {};
  return run("copy to host", [&] {
    return driver_.cuMemcpyDtoHAsync(to_host, device_address(from), size_of(bytes), stream_);
  });
}

Status CudaStream::copy_on_device(void* to, const void* from, Bytes bytes) {
  for (const void* end : {static_cast<const void*>(to), from}) {
    if (Status inside = blocks_.require("copy on device", end, bytes); !inside.ok()) return inside;
  }
  if (bytes == Bytes(0)) return {};
  return run("copy on device", [&] {
    return driver_.cuMemcpyDtoDAsync(device_address(to), device_address(from), size_of(bytes),
                                     stream_);
  });
}

Status CudaStream::fill(void* to, std::byte value, Bytes bytes) {
  if (Status inside = blocks_.require("fill", to, bytes); !inside.ok()) return inside;
  if (bytes == Bytes(0)) return {};
  return run("fill", [&] {
    return driver_.cuMemsetD8Async(device_address(to), std::to_integer<unsigned char>(value),
                                   size_of(bytes), stream_);
  });
}

Status CudaStream::record(Event& event) {
  const CudaEvent& own = as_cuda_event(event);
  Status recorded =
      run("recording an event", [&] { return driver_.cuEventRecord(own.handle(), stream_); });
  if (recorded.ok()) static_cast<CudaEvent&>(event).set_recorded();
  return recorded;
}

Status CudaStream::wait(const Event& event) {
  const CudaEvent& own = as_cuda_event(event);
  if (!own.recorded()) return {};
  return run("waiting in a stream",
             [&] { return driver_.cuStreamWaitEvent(stream_, own.handle(), 0); });
}

Status CudaStream::host_function(std::function<void()> function) {
  return run("calling the host", [&] {
    {
      const MutexLock lock(host_calls_->mutex);
      host_calls_->waiting.push_back(std::move(function));
    }
    const CUresult launched = driver_.cuLaunchHostFunc(stream_, &call_next, host_calls_.get());
    if (launched != CUDA_SUCCESS) {
      const MutexLock lock(host_calls_->mutex);
      host_calls_->waiting.pop_back();
    }
    return launched;
  });
}

void CudaStream::call_next(void* calls) {
  auto& own = *static_cast<HostCalls*>(calls);
  std::function<void()> function;
  {
    const MutexLock lock(own.mutex);
    function = std::move(own.waiting.front());
    own.waiting.pop_front();
  }
  function();
}

Status CudaStream::synchronize() {
  const CudaContext::RelaxedScope scope(context_);
  Status done = context_.check(driver_.cuStreamSynchronize(stream_), "waiting for a stream");
  if (done.ok()) all_done();
  return done;
}

Status CudaStream::require_room() {
  if (enqueued_ - done_ < limits::kMaxStreamQueue) return {};
  forget_done();
  if (enqueued_ - done_ < limits::kMaxStreamQueue) return {};
  return stream_is_full();
}

void CudaStream::forget_done() {
  const CudaContext::RelaxedScope scope(context_);
  while (!marks_.empty() && driver_.cuEventQuery(marks_.front().event) != CUDA_ERROR_NOT_READY) {
    done_ = marks_.front().count;
    events_.give_back(marks_.front().event);
    marks_.pop_front();
  }
}

// Without an event there is no mark, and the queue only seems longer than it is.
void CudaStream::set_mark() {
  const Result<CUevent> event = events_.take();
  if (!event.ok()) return;
  if (driver_.cuEventRecord(event.value(), stream_) == CUDA_SUCCESS) {
    marks_.push_back({enqueued_, event.value()});
  } else {
    events_.give_back(event.value());
  }
}

void CudaStream::all_done() {
  done_ = enqueued_;
  for (const Mark& mark : marks_) events_.give_back(mark.event);
  marks_.clear();
}

}  // namespace laneway::memory
