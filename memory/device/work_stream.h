// WorkStream: the part of a stream that both CPU-run devices share: it checks what is enqueued and
// turns each call into one piece of work. What becomes of the work (a thread runs it, a crank turns
// it) is the subclass's matter.
#pragma once

#include <functional>
#include <memory>

#include "memory/device/copy_engine.h"
#include "memory/device/device.h"
#include "memory/device/host_event.h"
#include "memory/device/host_memory.h"

namespace laneway::memory {

// Run in order; one with `after` starts only when that has happened.
struct Work {
  std::shared_ptr<const Completion> after;
  std::function<void()> run;
};

class WorkStream : public Stream {
 public:
  // Both outlive the stream.
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

// What enqueue answers when a stream is full.
Error stream_is_full();

}  // namespace laneway::memory
