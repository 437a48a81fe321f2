#include "memory/device/work_stream.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "memory/device/limits.h"

namespace laneway::memory {
namespace {

size_t count(Bytes bytes) { return static_cast<size_t>(bytes.count()); }

const HostEvent& as_host_event(const Event& event) {
  const auto* own = dynamic_cast<const HostEvent*>(&event);
  LW_CHECK(own != nullptr, "an event of another kind of device");
  return *own;
}

}  // namespace

Status WorkStream::copy_to_device(void* to, const void* from_host, Bytes bytes) {
  if (Status inside = memory_.require_pool("copy to device", to, bytes); !inside.ok()) {
    return inside;
  }
  return enqueue({nullptr, [this, to, from_host, bytes] {
                    engine_.copy(CopyDirection::to_device, to, from_host, bytes);
                  }});
}

Status WorkStream::copy_to_host(void* to_host, const void* from, Bytes bytes) {
  if (Status inside = memory_.require_pool("copy to host", from, bytes); !inside.ok()) {
    return inside;
  }
  return enqueue({nullptr, [this, to_host, from, bytes] {
                    engine_.copy(CopyDirection::to_host, to_host, from, bytes);
                  }});
}

Status WorkStream::copy_on_device(void* to, const void* from, Bytes bytes) {
  for (const void* end : {static_cast<const void*>(to), from}) {
    if (Status inside = memory_.require_pool("copy on device", end, bytes); !inside.ok()) {
      return inside;
    }
  }
  return enqueue({nullptr, [to, from, bytes] { std::memmove(to, from, count(bytes)); }});
}

Status WorkStream::fill(void* to, std::byte value, Bytes bytes) {
  if (Status inside = memory_.require_pool("fill", to, bytes); !inside.ok()) return inside;
  return enqueue({nullptr, [to, value, bytes] {
                    std::memset(to, std::to_integer<int>(value), count(bytes));
                  }});
}

Status WorkStream::record(Event& event) {
  as_host_event(event);
  auto completion = std::make_shared<Completion>();
  Status enqueued = enqueue({nullptr, [completion] { completion->complete(); }});
  if (enqueued.ok()) static_cast<HostEvent&>(event).set_latest(completion);
  return enqueued;
}

Status WorkStream::wait(const Event& event) {
  std::shared_ptr<const Completion> record = as_host_event(event).latest();
  if (record == nullptr) return {};
  return enqueue({std::move(record), [] {}});
}

Status WorkStream::host_function(std::function<void()> function) {
  return enqueue({nullptr, std::move(function)});
}

Error stream_is_full() {
  return Error{ErrorCode::refused, "the stream already has " +
                                       std::to_string(limits::kMaxStreamQueue) +
                                       " pieces of work waiting; synchronize it first"};
}

}  // namespace laneway::memory
