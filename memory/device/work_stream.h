// WorkStream: the part of a stream that both devices of the CPU share: it checks each call and
// turns it into one piece of work. The subclass decides how the work runs (on a thread, or when a
// test cranks it).
#pragma once

#include <functional>
#include <memory>

#include "memory/device/copy_engine.h"
#include "memory/device/device.h"
#include "memory/device/host_event.h"
#include "memory/device/host_memory.h"

namespace laneway::memory {

// Pieces run in order; a piece with `after` starts only when `after` is complete.
struct Work {
  std::shared_ptr<const Completion> after;
  std::function<void()> run;
};

class WorkStream : public Stream {
 public:
  // Both must outlive the stream.
  WorkStream(HostMemory& memory, CopyEngine& engine) : memory_(memory), engine_(engine) {}

  Status copy_to_device(void* to, const void* from_host, Bytes bytes) final;
  Status copy_to_host(void* to_host, const void* from, Bytes bytes) final;
  Status copy_on_device(void* to, const void* from, Bytes bytes) final;
  Status fill(void* to, std::byte value, Bytes bytes) final;
  Status record(Event& event) final;
  Status wait(const Event& event) final;
  Status host_function(std::function<void()> function) final;

 protected:
  // Error refused when limits::kMaxStreamQueue is reached.
  virtual Status enqueue(Work work) = 0;

 private:
  HostMemory& memory_;
  CopyEngine& engine_;
};

// The error of enqueue when a stream is full.
Error stream_is_full();

}  // namespace laneway::memory
