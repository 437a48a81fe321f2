// The driver API: streams, events and functions of the host in a stream.
#include <cuda.h>

#include <algorithm>
#include <chrono>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/hopper.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Event;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::Stream;
namespace hopper = laneway::fake_cuda::hopper;

namespace {

// The stream waits for an event of a capture, so it is part of the capture from now on.
CUresult join(Gpu& gpu, const std::shared_ptr<Stream>& stream, const Event& event) {
  if (!event.capture->active()) {
    return gpu.refuse(CUDA_ERROR_CAPTURED_EVENT,
                      "cuStreamWaitEvent: the event was last recorded in a capture that is over");
  }
  if (stream->capture != nullptr && stream->capture != event.capture) {
    stream->capture->spoil();
    event.capture->spoil();
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  const CUresult result = event.capture->join(stream, event.capture_tail);
  if (result == CUDA_SUCCESS) stream->capture = event.capture;
  return result;
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return call("cuStreamCreateWithPriority", [&](Gpu& gpu) {
    if ((flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto stream = std::make_shared<Stream>();
    stream->id = gpu.next_stream_id++;
    stream->flags = flags;
    stream->priority = std::clamp(priority, hopper::kGreatestPriority, hopper::kLeastPriority);
    stream->context = gpu.contexts.current();
    stream->green = gpu.contexts.find(stream->context)->green;
    *out = gpu.streams.add(std::move(stream));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult cuStreamDestroy(CUstream handle) {
  return call("cuStreamDestroy", [&](Gpu& gpu) {
    if (gpu.streams.find(handle) == nullptr) {
      return gpu.refuse(CUDA_ERROR_INVALID_HANDLE, "cuStreamDestroy: not a live stream");
    }
    const auto stream = gpu.streams.take(handle);
    // What is queued is still done; a capture cannot go on.
    if (const auto capture = stream->capture) {
      capture->spoil();
      capture->end(*stream);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return call("cuStreamSynchronize", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamSynchronize");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = gpu.may_wait("cuStreamSynchronize", *stream);
    return refused == CUDA_SUCCESS ? gpu.synchronize(stream) : refused;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return call("cuStreamQuery", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamQuery");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = gpu.may_wait("cuStreamQuery", *stream);
    if (refused != CUDA_SUCCESS) return refused;
    return stream->last == nullptr || stream->last->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  return call("cuStreamWaitEvent", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamWaitEvent");
    const auto event = gpu.event(event_handle, "cuStreamWaitEvent");
    if (stream == nullptr || event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (event->capture != nullptr) return join(gpu, stream, *event);
    if (event->mark == nullptr) return CUDA_SUCCESS;
    if (stream->capture != nullptr && (flags & CU_EVENT_WAIT_EXTERNAL) == 0) {
      stream->capture->spoil();
      return gpu.refuse(
          CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          "cuStreamWaitEvent: a captured stream is to wait for an event from outside");
    }
    if (stream->capture != nullptr) return gpu.submit(stream, {"wait for an outer event", {}, {}});
    gpu.enqueue(stream, {}, {event->mark});
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return call("cuStreamGetPriority", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamGetPriority");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return call("cuStreamGetFlags", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamGetFlags");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return call("cuStreamGetId", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamGetId");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *id = stream->id;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return call("cuStreamGetCtx", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamGetCtx");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *context = stream->context != nullptr ? stream->context : gpu.contexts.current();
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  return call("cuLaunchHostFunc", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuLaunchHostFunc");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return gpu.submit(stream, {"host function", {}, [=] { function(argument); }});
  });
}

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return call("cuEventCreate", [&](Gpu& gpu) {
    constexpr unsigned kKnown =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto event = std::make_shared<Event>();
    event->flags = flags;
    *out = gpu.events.add(std::move(event));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return call("cuEventDestroy", [&](Gpu& gpu) {
    if (gpu.event(handle, "cuEventDestroy") == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    gpu.events.take(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags) {
  return call("cuEventRecord", [&](Gpu& gpu) {
    const auto event = gpu.event(handle, "cuEventRecord");
    const auto stream = gpu.stream(stream_handle, "cuEventRecord");
    if (stream == nullptr || event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
    event->capture = (flags & CU_EVENT_RECORD_EXTERNAL) == 0 ? stream->capture : nullptr;
    if (event->capture != nullptr) {
      event->capture_tail = stream->capture_tail;
      return event->capture->spoiled() ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    }
    if (stream->capture != nullptr) return gpu.submit(stream, {"record an outer event", {}, {}});
    event->mark = gpu.enqueue(stream, {}, {});
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

CUresult cuEventQuery(CUevent handle) {
  return call("cuEventQuery", [&](Gpu& gpu) {
    const auto event = gpu.event(handle, "cuEventQuery");
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = gpu.may_wait("cuEventQuery", *event);
    if (refused != CUDA_SUCCESS) return refused;
    return event->mark == nullptr || event->mark->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return call("cuEventSynchronize", [&](Gpu& gpu) {
    const auto event = gpu.event(handle, "cuEventSynchronize");
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = gpu.may_wait("cuEventSynchronize", *event);
    if (refused != CUDA_SUCCESS) return refused;
    gpu.executor.wait(event->mark);
    return gpu.lasting;
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  return call("cuEventElapsedTime", [&](Gpu& gpu) {
    const auto from = gpu.event(begin, "cuEventElapsedTime");
    const auto to = gpu.event(end, "cuEventElapsedTime");
    if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!from->timed() || !to->timed() || from->mark == nullptr || to->mark == nullptr) {
      return gpu.refuse(CUDA_ERROR_INVALID_HANDLE,
                        "cuEventElapsedTime: an event without timing, or never recorded");
    }
    if (!from->mark->done || !to->mark->done) return CUDA_ERROR_NOT_READY;
    const auto between = to->mark->when - from->mark->when;
    *milliseconds = std::chrono::duration<float, std::milli>(between).count();
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
