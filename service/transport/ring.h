// Ring: the memory that one submitter of a job (a client process) and the worker share, a "link".
// The client writes requests into slots and counts `submitted` up; the worker takes them in order,
// writes each answer into its slot and counts `done` up, which gives the slot back. Sixty-four
// slots (limits::kMaxInFlight), slot n % kRingSlots for the n-th request from 0 on. The tensors'
// bytes are elsewhere, in segments that the client made (transport/block_layout.h).
//
// Neither side trusts what the other writes: everything shared is atomic, is read once into private
// memory and checked there (transport/ring_client, transport/ring_server). Data is published by the
// stores of the two counters. A side that waits may first spin for a short time, in which it only
// looks at the other's counter (transport/adaptive_spin): its flag stays down, so that it is not
// woken. Who is about to block sets its `…_waits` flag, looks at the counter
// again and only then blocks; who counts up looks at that flag afterwards, and wakes the other side
// only if it is set. Counters and flags are stored and loaded in the one order of all (seq_cst), so
// one of the two sees the other. The worker is woken by an eventfd that it never reads (it waits
// for edges), the client by a byte in a pipe whose write end the client does not have: an eventfd's
// flags are shared, so a client could make the worker's write to it block.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"

namespace laneway::service {

inline constexpr uint64_t kRingMagic = 0x676e6972'79776e6c;  // "lnwyring"
inline constexpr uint32_t kRingVersion = 1;
inline constexpr uint32_t kRingSlots = limits::kMaxInFlight;

// Text of either side's making, as words that are written and read one by one: what the other side
// scribbles meanwhile spoils the text and nothing else.
template <size_t kBytes>
struct RingText {
  static_assert(kBytes % sizeof(uint64_t) == 0);
  std::array<std::atomic<uint64_t>, kBytes / sizeof(uint64_t)> words;

  // Cut where it does not fit; how many bytes were stored.
  uint32_t store(std::string_view text) {
    const size_t count = std::min(text.size(), kBytes);
    for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min(sizeof(word), count - at));
      words[at / sizeof(word)].store(word, std::memory_order_relaxed);
    }
    return static_cast<uint32_t>(count);
  }
  std::string load(uint32_t bytes) const {
    std::string text(std::min<size_t>(bytes, kBytes), '\0');
    for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
      const uint64_t word = words[at / sizeof(word)].load(std::memory_order_relaxed);
      std::memcpy(text.data() + at, &word, std::min(sizeof(word), text.size() - at));
    }
    return text;
  }
};

struct RingHeader {
  std::atomic<uint64_t> magic;    // written by the maker (the broker), as are the next two
  std::atomic<uint32_t> version;  //
  std::atomic<uint32_t> slots;    // kRingSlots
  // How many requests there ever were. Written by the client, worker_waits by the worker.
  alignas(64) std::atomic<uint64_t> submitted;
  std::atomic<uint32_t> worker_waits;
  // How many are answered. Written by the worker, client_waits by the client.
  alignas(64) std::atomic<uint64_t> done;
  std::atomic<uint32_t> client_waits;
  // Not 0: nothing further is taken, for the reason that the other three give. What is submitted
  // and not done gets no answer of its own. Written by the service, `closed` last, with release.
  alignas(64) std::atomic<uint32_t> closed;
  std::atomic<uint32_t> closed_code;  // ring_code
  std::atomic<uint32_t> closed_bytes;
  // Threads that compute in the worker while it is at a request of this ring: cores that a waiting
  // client must leave alone. Written by the worker; 0 until the first request.
  std::atomic<uint32_t> worker_threads;
  RingText<2048> closed_text;
  // The cores that either process may run on, as bits (transport/adaptive_spin); 0: not known. Each
  // is written by its own side when it attaches.
  std::atomic<uint64_t> client_cores;
  std::atomic<uint64_t> worker_cores;
};

enum class RingKind : uint32_t { iteration = 0, read_state = 1, write_state = 2 };

// Who comes first decides: the client changes `open` to `cancelled`, the worker changes `open` to
// `taken` when it is about to run the request.
enum class RingClaim : uint32_t { open = 0, cancelled = 1, taken = 2 };

struct alignas(64) RingSlot {
  // The request, the client's. `claim` is set to open with every request.
  std::atomic<uint32_t> kind;     // RingKind
  std::atomic<uint32_t> graph;    // number; of iterations
  std::atomic<uint32_t> segment;  // the client's number
  std::atomic<uint32_t> claim;    // RingClaim
  std::atomic<uint64_t> offset;   // of the block in the segment, a multiple of 64
  // The answer, the worker's.
  std::atomic<uint32_t> status;  // ring_code
  std::atomic<uint32_t> text_bytes;
  std::atomic<int64_t> took_ns;
  RingText<2000> text;
};

struct RingMemory {
  RingHeader header;
  std::array<RingSlot, kRingSlots> ring;

  RingSlot& slot(uint64_t sequence) { return ring[sequence % kRingSlots]; }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8);
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);
static_assert(offsetof(RingHeader, submitted) == 64 && offsetof(RingHeader, worker_waits) == 72);
static_assert(offsetof(RingHeader, done) == 128 && offsetof(RingHeader, client_waits) == 136);
static_assert(offsetof(RingHeader, closed) == 192 && offsetof(RingHeader, closed_text) == 208);
static_assert(offsetof(RingSlot, claim) == 12 && offsetof(RingSlot, offset) == 16);
static_assert(offsetof(RingSlot, status) == 24 && offsetof(RingSlot, took_ns) == 32);
static_assert(offsetof(RingSlot, text) == 40 && sizeof(RingSlot) == 2048);
static_assert(std::has_single_bit(kRingSlots));
static_assert(sizeof(RingMemory) == sizeof(RingHeader) + kRingSlots * sizeof(RingSlot));

// A ring's file has exactly this size.
inline constexpr uint64_t kRingBytes = sizeof(RingMemory);

// Codes of laneway.h: 0, or an ErrorCode behind LANEWAY_OK and LANEWAY_PENDING.
inline constexpr uint32_t ring_code(ErrorCode code) { return static_cast<uint32_t>(code) + 2; }
// What `code`, which is not 0, means; internal for one that means nothing.
inline constexpr ErrorCode ring_error(uint32_t code) {
  const bool known = code >= 2 && code <= ring_code(ErrorCode::busy);
  return known ? static_cast<ErrorCode>(code - 2) : ErrorCode::internal;
}

// Makes a fresh ring (zeros) one: by whoever made the memory, before anybody else has it.
inline void format_ring(RingMemory& ring) {
  ring.header.version.store(kRingVersion, std::memory_order_relaxed);
  ring.header.slots.store(kRingSlots, std::memory_order_relaxed);
  ring.header.magic.store(kRingMagic, std::memory_order_release);
}

// The block of a read_state or write_state: this header, `count` entries, then the bytes. Offsets
// are from the block's beginning.
struct StateHeader {
  uint32_t count;
  uint32_t has_random;     // 0 or 1
  uint64_t random_offset;  // of kRandomStateBytes bytes, in the form of torch.get_rng_state()
};
struct StateEntry {
  uint32_t slot;
  uint32_t reserved;
  uint64_t bytes;  // the slot's size
  uint64_t offset;
};
static_assert(sizeof(StateHeader) == 16 && sizeof(StateEntry) == 24);

}  // namespace laneway::service
