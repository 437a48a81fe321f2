// RingClient: the submitting side of one ring (transport/ring.h). Requests go in, answers come out
// in the same order; whoever waits harvests them for all: one thread looks at the doorbell, the
// others wait for that thread, which may spin before it sleeps (transport/adaptive_spin). A request
// answered at once costs a single-threaded caller at most one write (the worker sleeps), one poll
// and one read; none of them where both sides spin. Answers that nobody waits for are kept by
// their entry alone. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "memory/os/shared_memory.h"
#include "service/transport/adaptive_spin.h"
#include "service/transport/descriptor.h"
#include "service/transport/ring.h"

namespace laneway::service {

class RingClient {
 public:
  struct Request {
    RingKind kind = RingKind::iteration;
    uint32_t graph = 0;
    uint32_t segment = 0;
    uint64_t offset = 0;
  };
  // One request. Its bytes are the service's until it has an answer, whatever happens to the
  // handle.
  class Entry {
   private:
    friend class RingClient;
    uint64_t sequence_ = 0;
    std::shared_ptr<const void> keeps_;  // given back when the service is through with it
    std::optional<Status> answer_;       // guarded by the ring's mutex
    bool cancelled_ = false;             // answered, but the service has not passed it yet
  };
  using Handle = std::shared_ptr<Entry>;

  // `ring` is the memory, `wake` the worker's eventfd, `doorbell` the read end of the completion
  // pipe. Children of fork() get none of the memory. invalid_argument when it is no ring of this
  // version.
  static Result<std::unique_ptr<RingClient>> attach(Descriptor ring, Descriptor wake,
                                                    Descriptor doorbell, const Clock& clock);
  RingClient(const RingClient&) = delete;
  RingClient& operator=(const RingClient&) = delete;

  // `keeps` is what the request's block must not outlive; it is let go when the request is done.
  // busy: kRingSlots are not done yet (see wait_for_room); else the reason why the ring was closed.
  Result<Handle> submit(const Request& request, std::shared_ptr<const void> keeps)
      LW_EXCLUDES(mutex_);
  // The answer; nothing when `timeout` passed (negative: no limit; zero: only look).
  std::optional<Status> wait(const Handle& entry, Duration timeout) LW_EXCLUDES(mutex_);
  // Success when fewer than kRingSlots requests are not done, so that submit can take one more; the
  // reason why the ring was closed, if it was; nothing when `timeout` passed, which is read as
  // wait() reads it.
  std::optional<Status> wait_for_room(Duration timeout) LW_EXCLUDES(mutex_);
  // Whether it will not run: it is answered as cancelled then.
  bool cancel(const Handle& entry) LW_EXCLUDES(mutex_);
  // Why nothing further is taken, if so.
  Status check_open() LW_EXCLUDES(mutex_);
  // From here on the other side is not waited for: what has no answer gets this one.
  void abandon(const Error& reason) LW_EXCLUDES(mutex_);

 private:
  RingClient(memory::SharedMemory memory, Descriptor wake, Descriptor doorbell, const Clock& clock);

  RingMemory& ring() const { return *reinterpret_cast<RingMemory*>(memory_.data()); }
  // Harvests until `outcome()` gives something, or the time has passed.
  template <class Outcome>
  std::optional<Status> wait_until(Duration timeout, Outcome outcome) LW_REQUIRES(mutex_);
  // Takes the answers that are there; a closed ring's reason is the answer to the rest.
  void harvest() LW_REQUIRES(mutex_);
  void answer_rest(const Error& reason) LW_REQUIRES(mutex_);
  // Spins, then blocks until the doorbell rings or the time is there; the mutex is not held
  // meanwhile.
  void check_doorbell(TimePoint until) LW_REQUIRES(mutex_);
  // The second half of it: whether the other end of the doorbell is closed.
  bool sleep_at_doorbell(TimePoint until, uint64_t harvested) LW_REQUIRES(mutex_);

  memory::SharedMemory memory_;
  const Descriptor wake_;
  const Descriptor doorbell_;
  const Clock& clock_;

  AdaptiveSpin spin_;  // of the thread that has set looking_

  Mutex mutex_;
  CondVar looked_;  // the thread at the doorbell has come back
  bool looking_ LW_GUARDED_BY(mutex_) = false;
  std::deque<Handle> in_flight_ LW_GUARDED_BY(mutex_);  // in order of submission
  uint64_t submitted_ LW_GUARDED_BY(mutex_) = 0;
  std::optional<Error> over_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service
