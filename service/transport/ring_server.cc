#include "service/transport/ring_server.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/check.h"
#include "service/transport/adaptive_spin.h"

namespace laneway::service {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

// A doorbell that could block would let a client that does not listen stop the worker.
Status require_nonblocking(const Descriptor& doorbell) {
  const int flags = ::fcntl(doorbell.get(), F_GETFL);
  if (flags >= 0 && ::fcntl(doorbell.get(), F_SETFL, flags | O_NONBLOCK) == 0) return {};
  return Error{ErrorCode::invalid_argument, "the ring's doorbell is not a descriptor to write to"};
}

}  // namespace

Result<std::unique_ptr<RingServer>> RingServer::attach(Descriptor ring, Descriptor wake,
                                                       Descriptor doorbell) {
  if (!wake.valid()) {
    return Error{ErrorCode::invalid_argument, "a ring needs a descriptor that wakes the worker"};
  }
  if (Status set = require_nonblocking(doorbell); !set) return set.error();
  auto memory = memory::SharedMemory::attach(ring.release(), Bytes(kRingBytes));
  if (!memory) return memory.error();
  const RingHeader& header = reinterpret_cast<RingMemory*>(memory.value().data())->header;
  const uint64_t magic = header.magic.load(std::memory_order_acquire);
  const uint32_t version = header.version.load(relaxed);
  const uint32_t slots = header.slots.load(relaxed);
  if (magic != kRingMagic || version != kRingVersion || slots != kRingSlots) {
    return Error{ErrorCode::invalid_argument,
                 "shared memory is not a ring of version " + std::to_string(kRingVersion) +
                     " with " + std::to_string(kRingSlots) + " slots: it says version " +
                     std::to_string(version) + ", " + std::to_string(slots) + " slots"};
  }
  return std::unique_ptr<RingServer>(
      new RingServer(std::move(memory).value(), std::move(wake), std::move(doorbell)));
}

RingServer::RingServer(memory::SharedMemory memory, Descriptor wake, Descriptor doorbell)
    : memory_(std::move(memory)), wake_(std::move(wake)), doorbell_(std::move(doorbell)) {
  done_ = header().done.load(std::memory_order_acquire);
  taken_.store(done_, relaxed);
  header().worker_cores.store(usable_cores(), relaxed);
}

std::optional<RingKind> RingServer::next_kind() const {
  if (!ready()) return std::nullopt;
  return static_cast<RingKind>(ring().slot(taken_.load(relaxed)).kind.load(relaxed));
}

std::optional<RingRequest> RingServer::take() {
  if (broken_.load(relaxed)) return std::nullopt;
  const uint64_t sequence = taken_.load(relaxed);
  const uint64_t submitted = header().submitted.load(std::memory_order_acquire);
  if (submitted == sequence) return std::nullopt;
  RingSlot& slot = ring().slot(sequence);
  const uint32_t kind = slot.kind.load(relaxed);
  if (submitted - sequence > kRingSlots || kind > static_cast<uint32_t>(RingKind::write_state)) {
    broken_.store(true, relaxed);
    return std::nullopt;
  }
  taken_.store(sequence + 1, relaxed);
  RingRequest request{.sequence = sequence,
                      .kind = static_cast<RingKind>(kind),
                      .graph = slot.graph.load(relaxed),
                      .segment = slot.segment.load(relaxed),
                      .offset = slot.offset.load(relaxed)};
  // One that a predecessor took already stays taken: its client knows that it runs.
  auto claim = static_cast<uint32_t>(RingClaim::open);
  slot.claim.compare_exchange_strong(claim, static_cast<uint32_t>(RingClaim::taken),
                                     std::memory_order_acq_rel);
  request.cancelled = claim == static_cast<uint32_t>(RingClaim::cancelled);
  return request;
}

void RingServer::answer(uint64_t sequence, const Status& status, Duration took) {
  LW_CHECK(sequence == done_, "requests are answered in their order");
  RingSlot& slot = ring().slot(sequence);
  slot.text_bytes.store(status ? 0 : slot.text.store(status.error().message), relaxed);
  slot.took_ns.store(took.ns(), relaxed);
  slot.status.store(status ? 0 : ring_code(status.error().code), relaxed);
}

void RingServer::publish(uint64_t sequence) {
  LW_CHECK(sequence == done_, "requests are answered in their order");
  ++done_;
  header().done.store(done_);
  if (header().client_waits.load() != 0) ring_doorbell();
}

bool RingServer::arm() {
  header().worker_waits.store(1);
  if (!ready()) return true;
  disarm();
  return false;
}

void RingServer::close(const Error& reason) {
  if (closed()) return;
  header().closed_bytes.store(header().closed_text.store(reason.message), relaxed);
  header().closed_code.store(ring_code(reason.code), relaxed);
  header().closed.store(1, std::memory_order_release);
  ring_doorbell();
}

void RingServer::ring_doorbell() {
  const char stroke = 1;
  // Full: the client has not come to drain it, and will look once it does.
  [[maybe_unused]] const ssize_t written = ::write(doorbell_.get(), &stroke, 1);
}

}  // namespace laneway::service
