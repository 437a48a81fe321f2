// Trace: what happened, as fixed-size records in a ring in memory. Appending is cheap enough to
// leave on (an atomic counter and a few stores), so that the last moments before a question arises
// are there to be read. When the ring is full the oldest records are overwritten, and counted.
//
// Thread-safe: any thread appends, without a lock; reading and dumping beside appending give only
// whole records.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace laneway {

// What happened; the comment says what `first` and `second` are. Numbered for good: a recorded
// trace is read by later builds.
enum class TraceKind : uint16_t {
  job_offered = 1,           // persistent bytes, ephemeral bytes
  job_admitted = 2,          // waited ns, 0
  job_queued = 3,            // reason code, position
  job_refused = 4,           // reason code, bytes needed
  job_ended = 5,             // iterations, 0
  turn_granted = 6,          // turn, budget of iterations
  turn_ended = 7,            // turn, iterations
  turn_recalled = 8,         // turn, 0
  iteration_begun = 9,       // number, graph
  iteration_ended = 10,      // number, ns
  iteration_abandoned = 11,  // number, node
  iteration_failed = 12,     // number, node
  gate_waited = 13,          // height wanted, ns
  tape_recorded = 14,        // allocations, live bound
  tape_left = 15,            // allocations before it, peak
  plan_made = 16,            // peak, ns
  region_opened = 17,        // offset, bytes
  region_resized = 18,       // offset, bytes
  region_closed = 19,        // offset, bytes
  image_placed = 20,         // offset, bytes
  image_dropped = 21,        // offset, bytes
};
// The name as in the enum; "kind_N" for a number that this build does not know.
std::string trace_kind_name(TraceKind kind);

struct TraceRecord {
  int64_t time_ns = 0;  // on the clock of whoever appends
  TraceKind kind{};
  uint16_t lane = 0;  // 0: none
  uint32_t job = 0;   // 0: none
  int64_t first = 0;
  int64_t second = 0;
  friend bool operator==(const TraceRecord&, const TraceRecord&) = default;
};
static_assert(sizeof(TraceRecord) == 32);

class Trace {
 public:
  // Keeps the last `capacity` records (rounded up to a power of two, at most
  // limits::kMaxTraceRecords).
  explicit Trace(uint32_t capacity);

  void append(const TraceRecord& record);
  void append(TimePoint now, TraceKind kind, LaneId lane, JobId job, int64_t first,
              int64_t second) {
    append({now.ns(), kind, static_cast<uint16_t>(lane.value()), static_cast<uint32_t>(job.value()),
            first, second});
  }

  uint32_t capacity() const { return static_cast<uint32_t>(mask_ + 1); }
  // Appended so far, lost ones included.
  uint64_t appended() const { return next_.load(std::memory_order_acquire); }

  struct Contents {
    std::vector<TraceRecord> records;  // oldest first
    uint64_t lost = 0;                 // overwritten, or being written while we read
  };
  Contents read() const;

 private:
  // One record with the number of the append that wrote it; odd stamps are being written.
  struct Slot {
    std::atomic<uint64_t> stamp{0};
    std::atomic<uint64_t> words[4] = {};
  };

  uint64_t mask_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> next_{0};
};

// One line a record ("+0.001234567 iteration_ended lane=1 job=3 17 81920"), times relative to the
// first, and a line that says how many were lost, if any.
std::string trace_text(const Trace::Contents& contents);

}  // namespace laneway
