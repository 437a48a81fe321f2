// Device, Stream, Event and MemoryBlock: all that Laneway needs of an accelerator, in about sixteen
// calls that fit both host threads and CUDA. A device works asynchronously: enqueued work happens
// later, in the order of its stream; streams are ordered only by events.
//
// Events work as in CUDA. Recording marks the stream's work so far. Waits and queries refer to the
// latest record at the time of the call. An event that was never recorded counts as done. So
// waiting can never deadlock.
//
// Thread-safety: several threads may use a Device; one thread at a time may enqueue on a Stream;
// any thread may query an Event. Streams, events and blocks must be destroyed before their device.
// Implementations: HostDevice, CudaDevice, SyntheticDevice (tests); one conformance suite holds
// them to this header.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace laneway::memory {

// The differences between devices. Only tests read them: no other code takes another path for one
// device.
struct Capabilities {
  std::string name;                 // "host", "synthetic", "cuda:0"
  int64_t alignment = 64;           // of offsets in the pool
  bool pool_is_addressable = true;  // the CPU can read and write pool memory directly
  bool pool_is_exportable = true;   // pool blocks have a descriptor
  bool advances_by_itself = true;   // enqueued work runs although no caller waits for it
  // A thread that enqueues more than the device's own queue holds waits for the device; otherwise
  // the call is refused at limits::kMaxStreamQueue.
  bool full_queue_waits = false;
};

// A piece of memory; freed with the object. All work that uses it must be complete before that.
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
  // Returns when the work before the latest record is complete; the device's error if it failed.
  virtual Status synchronize() = 0;
};

class Stream {
 public:
  // The destructor synchronizes first.
  virtual ~Stream() = default;

  // Each of these calls returns once its work is enqueued. Errors: invalid_argument when a device
  // address is not inside one of the device's blocks, refused when limits::kMaxStreamQueue is
  // reached. The bytes at both ends must stay valid until the work is complete.
  virtual Status copy_to_device(void* to, const void* from_host, Bytes bytes) = 0;
  virtual Status copy_to_host(void* to_host, const void* from, Bytes bytes) = 0;
  virtual Status copy_on_device(void* to, const void* from, Bytes bytes) = 0;
  virtual Status fill(void* to, std::byte value, Bytes bytes) = 0;
  virtual Status record(Event& event) = 0;
  virtual Status wait(const Event& event) = 0;
  // Calls `function` on a thread of the device when all work before it is complete; work behind it
  // waits for it. `function` must neither throw nor call the device.
  virtual Status host_function(std::function<void()> function) = 0;

  // Returns when all work enqueued so far is complete; the device's error if something failed.
  virtual Status synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const Capabilities& capabilities() const = 0;
  // Allocates memory that streams compute on, all zero, aligned to a page at least. Error
  // out_of_memory names the size and the free bytes; invalid_argument names a size that is not
  // positive.
  virtual Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size) = 0;
  // Allocates memory of the CPU from and to which copies are fast (pinned). Errors as for
  // allocate_pool.
  virtual Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size) = 0;
  // Makes memory that the caller has, and keeps until the block's end, as fast for copies; no two
  // such blocks overlap. Errors: out_of_memory when no more can be pinned, invalid_argument names a
  // size that is not positive.
  virtual Result<std::unique_ptr<MemoryBlock>> pin(std::byte* memory, Bytes size) = 0;
  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
};

}  // namespace laneway::memory
