// Device, Stream, Event and MemoryBlock: the whole of what Laneway asks of an accelerator, in about
// fifteen calls that fit both host threads and CUDA. A device's work runs behind: what is enqueued
// on a stream happens later, in the order of that stream; streams are ordered only by events.
//
// Events work as in CUDA. Recording marks the stream's work so far; waiting and asking refer to the
// latest record at the time of the call; an event that was never recorded counts as done. So
// waiting can never deadlock.
//
// Thread-safety: a Device may be used by several threads; a Stream is fed by one thread at a time;
// an Event may be asked by any thread. Streams, events and blocks must be gone before their device.
// Implementations: HostDevice, CudaDevice, SyntheticDevice (tests); one conformance suite holds
// them to this page.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace laneway::memory {

// How devices differ. Only tests read it: no other code takes another path on one device.
struct Capabilities {
  std::string name;                 // "host", "synthetic", "cuda:0"
  int64_t alignment = 64;           // of offsets in the pool
  bool pool_is_addressable = true;  // the CPU can read and write pool memory directly
  bool pool_is_exportable = true;   // pool blocks have a descriptor
  bool advances_by_itself = true;   // enqueued work gets done without anybody asking for it
  // Who enqueues more than the device's own queue holds waits for the device, instead of being
  // refused at limits::kMaxStreamQueue.
  bool full_queue_waits = false;
};

// A piece of memory; freed with the object. Work that uses it must be done by then.
class MemoryBlock {
 public:
  virtual ~MemoryBlock() = default;
  virtual std::byte* data() const = 0;
  virtual Bytes size() const = 0;
  // A descriptor that other processes can map, owned by the block; -1 where there is none.
  virtual int descriptor() const = 0;
};

enum class EventState : uint8_t { pending, done };

class Event {
 public:
  virtual ~Event() = default;
  virtual EventState query() const = 0;
  // Returns when what the latest record marked is done; the device's error if it failed.
  virtual Status synchronize() = 0;
};

class Stream {
 public:
  // Synchronizes first.
  virtual ~Stream() = default;

  // All of these return once enqueued. Errors: invalid_argument when a device address is not
  // inside one of the device's blocks, refused when limits::kMaxStreamQueue is reached. The bytes
  // at both ends must stay until the work is done.
  virtual Status copy_to_device(void* to, const void* from_host, Bytes bytes) = 0;
  virtual Status copy_to_host(void* to_host, const void* from, Bytes bytes) = 0;
  virtual Status copy_on_device(void* to, const void* from, Bytes bytes) = 0;
  virtual Status fill(void* to, std::byte value, Bytes bytes) = 0;
  virtual Status record(Event& event) = 0;
  virtual Status wait(const Event& event) = 0;
  // Calls `function` on a thread of the device when everything before it is done; what follows
  // waits for it. It must neither throw nor call the device.
  virtual Status host_function(std::function<void()> function) = 0;

  // Returns when everything enqueued so far is done; the device's error if something failed.
  virtual Status synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const Capabilities& capabilities() const = 0;
  // Memory that streams compute on, all zero, aligned to a page at least. Error out_of_memory
  // names the size and what is left, invalid_argument a size that is not positive.
  virtual Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size) = 0;
  // Memory of the CPU from and to which copies are fast (pinned). Errors as above.
  virtual Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size) = 0;
  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
};

}  // namespace laneway::memory
