// RingServer: the worker's side of one ring (transport/ring.h): takes requests in order, answers
// them in order. What the client wrote is read once, checked, and never looked at again; nothing
// that a client writes can make it block, loop, crash or leave the ring's memory. A client that
// breaks the counters is `broken`: nothing further is taken.
//
// The process ignores SIGPIPE. One thread at a time, but for ready() and arm().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "memory/os/shared_memory.h"
#include "service/transport/descriptor.h"
#include "service/transport/ring.h"

namespace laneway::service {

// What a client asked for, checked as far as the ring alone can tell.
struct RingRequest {
  uint64_t sequence = 0;
  RingKind kind = RingKind::iteration;
  uint32_t graph = 0;
  uint32_t segment = 0;
  uint64_t offset = 0;
  bool cancelled = false;  // by its client, before it was taken
};

class RingServer {
 public:
  // `ring` is the memory, `wake` the client's eventfd, `doorbell` the write end of its pipe; all
  // are closed with the server. Goes on behind what is answered already. invalid_argument when the
  // memory is not a ring of this version.
  static Result<std::unique_ptr<RingServer>> attach(Descriptor ring, Descriptor wake,
                                                    Descriptor doorbell);
  RingServer(const RingServer&) = delete;
  RingServer& operator=(const RingServer&) = delete;

  // To be waited for by its edges (EPOLLET), never read.
  int wake_descriptor() const { return wake_.get(); }
  bool broken() const { return broken_; }

  // Whether take would find something (or that the client broke the ring). Any thread.
  bool ready() const {
    return !broken_.load(std::memory_order_relaxed) &&
           header().submitted.load() != taken_.load(std::memory_order_relaxed);
  }
  // What the next request says it is, while it still can be cancelled; nothing when there is none.
  std::optional<RingKind> next_kind() const;
  // The next request; nothing when there is none, or the ring is broken. Each is answered and
  // published before the next is.
  std::optional<RingRequest> take();
  // Writes the answer to the request that was published last but not yet, into its slot.
  void answer(uint64_t sequence, const Status& status, Duration took);
  // Counts it as done, which gives the slot back, and wakes a client that waits.
  void publish(uint64_t sequence);
  // The first that is not published.
  uint64_t done() const { return done_; }

  // Asks to be woken by the next request. False when one is there already; then nothing was asked
  // for. Any thread.
  bool arm();
  void disarm() { header().worker_waits.store(0, std::memory_order_relaxed); }

  // The cores that the client may run on, as bits; 0: not known.
  uint64_t client_cores() const { return header().client_cores.load(std::memory_order_relaxed); }
  // So many threads compute in this process while the requests taken last are under way.
  void publish_threads(uint32_t threads) {
    if (header().worker_threads.load(std::memory_order_relaxed) == threads) return;
    header().worker_threads.store(threads, std::memory_order_relaxed);
  }

  // Nothing further is taken, for this reason; wakes the client. The first reason stands.
  void close(const Error& reason);
  bool closed() const { return header().closed.load(std::memory_order_acquire) != 0; }

 private:
  RingServer(memory::SharedMemory memory, Descriptor wake, Descriptor doorbell);

  RingMemory& ring() const { return *reinterpret_cast<RingMemory*>(memory_.data()); }
  RingHeader& header() const { return ring().header; }
  void ring_doorbell();

  memory::SharedMemory memory_;
  const Descriptor wake_;
  const Descriptor doorbell_;
  std::atomic<uint64_t> taken_;
  uint64_t done_;
  std::atomic<bool> broken_{false};
};

}  // namespace laneway::service
