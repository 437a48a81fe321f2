#include "service/transport/ring_client.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

namespace laneway::service {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

Error too_many() {
  return Error{ErrorCode::busy, std::to_string(kRingSlots) +
                                    " iterations are in flight, which is the limit; wait for "
                                    "one of them"};
}

// A thread at the doorbell looks up so often: somebody may have abandoned the ring, which rings
// nothing.
constexpr int kLongestLookMs = 1'000;

// No machine has as many cores: the other side may have written any number.
constexpr uint32_t kMostThreads = 1u << 20;

// Rounded up, so that nobody comes back early and asks again.
int poll_timeout(TimePoint now, TimePoint until) {
  const int64_t left_ns = std::min((until - now).ns(), int64_t{kLongestLookMs} * 1'000'000);
  return static_cast<int>((std::max<int64_t>(left_ns, 0) + 999'999) / 1'000'000);
}

}  // namespace

Result<std::unique_ptr<RingClient>> RingClient::attach(Descriptor ring, Descriptor wake,
                                                       Descriptor doorbell, const Clock& clock) {
  if (!wake.valid() || !doorbell.valid()) {
    return Error{ErrorCode::invalid_argument, "a ring needs a doorbell and a descriptor to wake"};
  }
  auto memory = memory::SharedMemory::attach(ring.release(), Bytes(kRingBytes));
  if (!memory) return memory.error();
  const RingHeader& header = reinterpret_cast<RingMemory*>(memory.value().data())->header;
  const uint64_t magic = header.magic.load(std::memory_order_acquire);
  const uint32_t version = header.version.load(relaxed);
  if (magic != kRingMagic || version != kRingVersion || header.slots.load(relaxed) != kRingSlots) {
    return Error{ErrorCode::unsupported,
                 "the service's rings are of version " + std::to_string(version) +
                     ", this library speaks version " + std::to_string(kRingVersion) +
                     ": use both from one build"};
  }
  if (Status kept = memory.value().keep_from_children(); !kept) return kept.error();
  return std::unique_ptr<RingClient>(
      new RingClient(std::move(memory).value(), std::move(wake), std::move(doorbell), clock));
}

RingClient::RingClient(memory::SharedMemory memory, Descriptor wake, Descriptor doorbell,
                       const Clock& clock)
    : memory_(std::move(memory)),
      wake_(std::move(wake)),
      doorbell_(std::move(doorbell)),
      clock_(clock),
      spin_(clock) {
  submitted_ = ring().header.submitted.load(relaxed);
  ring().header.client_cores.store(usable_cores(), relaxed);
}

Result<RingClient::Handle> RingClient::submit(const Request& request,
                                              std::shared_ptr<const void> keeps) {
  auto entry = std::make_shared<Entry>();
  MutexLock lock(mutex_);
  harvest();
  if (over_) return *over_;
  if (in_flight_.size() >= kRingSlots) return too_many();
  entry->sequence_ = submitted_;
  entry->keeps_ = std::move(keeps);
  RingSlot& slot = ring().slot(submitted_);
  slot.kind.store(static_cast<uint32_t>(request.kind), relaxed);
  slot.graph.store(request.graph, relaxed);
  slot.segment.store(request.segment, relaxed);
  slot.offset.store(request.offset, relaxed);
  slot.claim.store(static_cast<uint32_t>(RingClaim::open), relaxed);
  in_flight_.push_back(entry);
  ring().header.submitted.store(++submitted_);
  if (ring().header.worker_waits.load() != 0) {
    const uint64_t one = 1;
    // Full (after 2^64 strokes): the worker is awake.
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }
  return entry;
}

std::optional<Status> RingClient::wait(const Handle& entry, Duration timeout) {
  MutexLock lock(mutex_);
  if (entry->answer_) return entry->answer_;
  return wait_until(timeout, [&entry] { return entry->answer_; });
}

std::optional<Status> RingClient::wait_for_room(Duration timeout) {
  MutexLock lock(mutex_);
  return wait_until(timeout, [this]() LW_REQUIRES(mutex_) -> std::optional<Status> {
    if (over_) return Status(*over_);
    if (in_flight_.size() < kRingSlots) return Status();
    return std::nullopt;
  });
}

template <class Outcome>
std::optional<Status> RingClient::wait_until(Duration timeout, Outcome outcome) {
  const bool unlimited = timeout.ns() < 0;
  const TimePoint until = unlimited ? TimePoint::never() : clock_.now() + timeout;
  while (true) {
    harvest();
    std::optional<Status> reached = outcome();
    if (reached || timeout.ns() == 0) return reached;
    if (!unlimited && clock_.now() >= until) return std::nullopt;
    if (!looking_) {
      check_doorbell(until);
    } else if (unlimited) {
      looked_.wait(mutex_);
    } else {
      looked_.wait_for(mutex_, until - clock_.now());
    }
  }
}

void RingClient::check_doorbell(TimePoint until) {
  looking_ = true;
  RingHeader& header = ring().header;
  const uint64_t harvested = submitted_ - in_flight_.size();
  mutex_.unlock();
  const AwaitedThreads worker{
      .threads = std::clamp(header.worker_threads.load(relaxed), 1u, kMostThreads),
      .cores = header.worker_cores.load(relaxed)};
  const bool came = spin_.spin(worker, until, [&header, harvested] {
    return header.done.load(std::memory_order_acquire) != harvested ||
           header.closed.load(std::memory_order_acquire) != 0;
  });
  mutex_.lock();
  const bool hung_up = !came && !over_ && sleep_at_doorbell(until, harvested);
  looking_ = false;
  harvest();
  if (hung_up) {
    answer_rest(Error{ErrorCode::unavailable,
                      "the service has ended, and its jobs with it: start lanewayd again, connect "
                      "anew and go on from your last state_dict"});
  }
  looked_.notify_all();
}

bool RingClient::sleep_at_doorbell(TimePoint until, uint64_t harvested) {
  RingHeader& header = ring().header;
  bool hung_up = false;
  header.client_waits.store(1);
  if (header.done.load() == harvested && header.closed.load(std::memory_order_acquire) == 0) {
    const int timeout_ms = poll_timeout(clock_.now(), until);
    mutex_.unlock();
    pollfd doorbell{.fd = doorbell_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&doorbell, 1, timeout_ms) > 0) {
      std::array<char, kRingSlots> strokes;
      if ((doorbell.revents & POLLIN) != 0) {
        hung_up = ::read(doorbell_.get(), strokes.data(), strokes.size()) == 0;
      } else {
        hung_up = true;
      }
    }
    mutex_.lock();
  }
  header.client_waits.store(0, relaxed);
  if (header.done.load(relaxed) != harvested) spin_.slept();
  return hung_up;
}

void RingClient::harvest() {
  RingMemory& shared = ring();
  // What was answered before the ring was closed keeps its answer.
  const bool closed = shared.header.closed.load(std::memory_order_acquire) != 0;
  const uint64_t done = shared.header.done.load(std::memory_order_acquire);
  while (!in_flight_.empty() && in_flight_.front()->sequence_ < done) {
    Entry& entry = *in_flight_.front();
    if (!entry.answer_) {
      const RingSlot& slot = shared.slot(entry.sequence_);
      const uint32_t status = slot.status.load(relaxed);
      entry.answer_ =
          status == 0
              ? Status()
              : Status(Error{ring_error(status), slot.text.load(slot.text_bytes.load(relaxed))});
    }
    entry.keeps_.reset();
    in_flight_.pop_front();
  }
  if (!closed || over_) return;
  answer_rest(Error{ring_error(shared.header.closed_code.load(relaxed)),
                    shared.header.closed_text.load(shared.header.closed_bytes.load(relaxed))});
}

void RingClient::answer_rest(const Error& reason) {
  if (!over_) over_ = reason;
  for (const Handle& entry : in_flight_) {
    if (!entry->answer_) entry->answer_ = *over_;
    entry->keeps_.reset();
  }
  in_flight_.clear();
}

bool RingClient::cancel(const Handle& entry) {
  MutexLock lock(mutex_);
  harvest();
  if (entry->answer_) return entry->cancelled_;
  auto open = static_cast<uint32_t>(RingClaim::open);
  entry->cancelled_ =
      ring()
          .slot(entry->sequence_)
          .claim.compare_exchange_strong(open, static_cast<uint32_t>(RingClaim::cancelled));
  if (entry->cancelled_) {
    entry->answer_ = Error{ErrorCode::cancelled, "it was cancelled before it ran"};
    looked_.notify_all();
  }
  return entry->cancelled_;
}

Status RingClient::check_open() {
  MutexLock lock(mutex_);
  harvest();
  return over_ ? Status(*over_) : Status();
}

void RingClient::abandon(const Error& reason) {
  MutexLock lock(mutex_);
  harvest();
  answer_rest(reason);
  looked_.notify_all();
}

}  // namespace laneway::service
