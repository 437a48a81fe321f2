// SyntheticDevice: a device for tests whose work runs behind: nothing that is enqueued happens
// until the test says so, one piece at a time, in the order of each stream and never before the
// events it waits for. Run-ahead, races between streams and late completion become deterministic.
// Synchronizing is such a word too: it runs what is needed, in the order of the streams' creation.
//
// Thread-safe; work is run by whoever turns the crank, one at a time.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "memory/device/copy_engine.h"
#include "memory/device/device.h"
#include "memory/device/host_memory.h"

namespace laneway::memory {

class Completion;

class SyntheticDevice final : public Device {
 public:
  SyntheticDevice();
  ~SyntheticDevice() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size) override;
  Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size) override;
  Result<std::unique_ptr<MemoryBlock>> pin(std::byte* memory, Bytes size) override {
    return HostMemory::pin(memory, size);
  }
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;

  // The crank. `stream` is one of this device's.
  // Runs the stream's next piece of work; false when there is none or it waits for an event.
  bool run_one(Stream& stream);
  // Runs one piece of a stream chosen by chance among those that can; false when none can.
  bool run_any(Random& random);
  // Runs until nothing can; how many pieces.
  size_t run_all();
  // Enqueued and not yet done.
  size_t pending(const Stream& stream) const;

 private:
  class SyntheticStream;

  void drive(const Completion& until);
  void add(SyntheticStream* stream);
  void remove(SyntheticStream* stream);

  Capabilities capabilities_;
  HostMemory memory_;
  CopyEngine engine_;
  Mutex crank_mutex_;  // held while work runs; before streams_mutex_
  mutable Mutex streams_mutex_;
  std::vector<SyntheticStream*> streams_ LW_GUARDED_BY(streams_mutex_);  // in creation order
};

}  // namespace laneway::memory
