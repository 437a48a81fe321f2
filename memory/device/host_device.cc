#include "memory/device/host_device.h"

#include <system_error>
#include <utility>

#include "base/limits.h"
#include "memory/device/host_event.h"
#include "memory/device/host_stream.h"

namespace laneway::memory {

HostDevice::HostDevice(std::shared_ptr<CopyEngine> link) : link_(std::move(link)) {
  capabilities_.name = "host";
  capabilities_.alignment = limits::kHostAlignment;
}

Result<std::unique_ptr<MemoryBlock>> HostDevice::allocate_pool(Bytes size) {
  return memory_.allocate_pool(size);
}

Result<std::unique_ptr<MemoryBlock>> HostDevice::allocate_host(Bytes size) {
  return memory_.allocate_host(size);
}

Result<std::unique_ptr<MemoryBlock>> HostDevice::pin(std::byte* memory, Bytes size) {
  return HostMemory::pin(memory, size);
}

Result<std::unique_ptr<Stream>> HostDevice::create_stream() {
  try {
    return std::unique_ptr<Stream>(std::make_unique<HostStream>(memory_, *link_));
  } catch (const std::system_error& error) {
    return Error{ErrorCode::out_of_memory,
                 std::string("a thread for a stream cannot be started: ") + error.what()};
  }
}

Result<std::unique_ptr<Event>> HostDevice::create_event() {
  return std::unique_ptr<Event>(
      std::make_unique<HostEvent>([](const Completion& record) { record.wait(); }));
}

}  // namespace laneway::memory
