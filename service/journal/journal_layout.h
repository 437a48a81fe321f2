// The journal's memory: what a worker writes down so that its successor can go on where it died.
// One record a job and one a lane; written by the active worker alone, read by it and by the next.
// Each step is one release store of `word`; what belongs to a step is written before it, into the
// half that the former word does not speak of, so that a kill between any two stores leaves either
// the former step or the next one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "service/journal/job_shown.h"

namespace laneway::service {

inline constexpr uint64_t kJournalMagic = 0x6c6e726a'79776e6c;  // "lnwyjrnl"
inline constexpr uint32_t kJournalVersion = 9;

// What the job is at. The word is number << 4 | random half << 3 | phase; the number counts the
// requests that went through the journal.
enum class JournalPhase : uint8_t {
  idle = 0,        // number - 1 is over: its answer is in its ring slot
  running = 1,     // nothing persistent is written yet: it is run again
  committing = 2,  // an iteration writes the job's state: it is run again where that can be undone
  writing = 3,     // a client's bytes are written over the state: it is run again, before all else
  spoiled = 4,     // it left the state partly written, and its client was answered: the job is over
};

constexpr uint64_t journal_word(uint64_t number, uint64_t half, JournalPhase phase) {
  return number << 4 | half << 3 | static_cast<uint64_t>(phase);
}
constexpr uint64_t number_of(uint64_t word) { return word >> 4; }
constexpr uint64_t half_of(uint64_t word) { return word >> 3 & 1; }
constexpr JournalPhase phase_of(uint64_t word) { return static_cast<JournalPhase>(word & 7); }

// The places of the jobs' records are said here too, for programs that only look.
struct JournalHeader {
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> jobs;
  std::atomic<uint32_t> first_job;  // bytes from the beginning to the first record
  std::atomic<uint32_t> job_bytes;  // of one record
  // Requests that are over, of all jobs: a worker that dies with none in between has a fault.
  alignas(64) std::atomic<uint64_t> ended;
  // By the supervisor, before a successor begins: the machine's memory ran out, and the kernel
  // killed the worker for it.
  std::atomic<uint32_t> out_of_memory;
  std::atomic<uint64_t> recovery_used;  // bytes of the recovery memory that are in use
};

// Whose request it is: the `sequence`-th of a link's ring.
struct JournalOrigin {
  std::atomic<uint64_t> link;
  std::atomic<uint64_t> sequence;
};

struct JournalTotals {
  std::atomic<uint64_t> iterations;
  std::atomic<int64_t> busy_ns;
};

// Room for what a device said when it failed; longer texts are cut.
inline constexpr size_t kSuspicionTextBytes = 512;

struct alignas(64) JobRecord {
  std::atomic<uint64_t> job;   // 0: the record is free
  std::atomic<uint64_t> lane;  // 0: no memory; written after the next two
  std::atomic<uint64_t> image_offset;
  std::atomic<uint64_t> image_bytes;
  std::atomic<uint32_t> placed;  // the image's bytes are there
  std::atomic<uint32_t> over;    // the job has ended and has no memory
  // How often the device failed while it had work of this job, or the worker died of it at the same
  // place; written after the next four.
  std::atomic<uint32_t> suspicions;
  std::atomic<uint32_t> suspicion_bytes;
  std::atomic<uint64_t> suspicion_iterations;  // that were complete the last time
  std::atomic<uint64_t> suspicion_place;       // 0: the device; else graph << 32 | node, + 1
  alignas(64) std::atomic<uint64_t> word;
  std::array<JournalOrigin, 2> origins;  // of number n in n % 2
  std::array<JournalTotals, 2> totals;   // of all before number n in n % 2
  // How often in a row the machine's memory ran out while the worker was at this request of it.
  std::atomic<uint64_t> out_of_memory_number;
  std::atomic<uint32_t> out_of_memory_times;
  std::atomic<uint32_t> pinned;  // its client wants its image in the pool
  // Of the image, outside of the pool: offset << 2 | tier; 0: none. Written after its checksum.
  std::atomic<uint64_t> copy;
  std::atomic<uint64_t> copy_checksum;
  JobShown shown;
  alignas(64) std::array<std::array<std::byte, limits::kRandomStateRoom>, 2> random;
  std::array<char, kSuspicionTextBytes> suspicion_text;  // of the last time
};

// What a lane is at, for the supervisor, which kills a worker whose lane hangs. The worker says
// what it does and never looks at a clock for it; the supervisor compares by its own.
enum class LaneDoing : uint32_t {
  nothing = 0,    // idle, or it waits for somebody: a client, the core, another lane
  iterating = 1,  // runs nodes: `steps` counts them
  copying = 2,    // reads or writes a job's state, or clears its region
  planning = 3,   // turns a tape into a plan
  snapshotting = 4,
  restoring = 5,  // a snapshot, or the iterations since (`steps`)
  landing = 6,    // waits for what it enqueued on a device; `steps` counts what retired
};

// LaneNotes::node of a lane that is at none.
inline constexpr uint32_t kNoNode = UINT32_MAX;

// Written by the thread of the lane (or the one that places images), relaxed, but for `hung`.
struct LaneNotes {
  std::atomic<uint32_t> doing;     // LaneDoing
  std::atomic<uint32_t> bound_ms;  // what a step of the present iteration may take; 0: not measured
  std::atomic<uint64_t> steps;     // grows with each node, or whatever else shows progress
  std::atomic<uint64_t> job;       // whose work it is
  std::atomic<uint32_t> graph;
  std::atomic<uint32_t> node;
  std::atomic<uint32_t> hung;    // by the supervisor, before it kills the worker: this lane hung
  std::atomic<uint32_t> signal;  // that its thread received, and the worker died of
};

struct LaneRegion {
  std::atomic<uint64_t> region;  // 0: closed
  std::atomic<uint64_t> offset;
  std::atomic<uint64_t> bytes;
};

// Of lane n, from 1 on, in place n - 1.
struct LaneRecord {
  std::atomic<uint64_t> current;  // which of the two stands
  std::array<LaneRegion, 2> regions;
  alignas(64) LaneNotes notes;
};

struct JournalMemory {
  JournalHeader header;
  alignas(64) LaneNotes images;  // of the thread that places images
  alignas(64) std::array<LaneRecord, limits::kMaxLanes> lanes;
  std::array<JobRecord, limits::kMaxJobs> jobs;
};

// All that have notes: lane n is number n - 1, the thread that places images comes last.
inline constexpr size_t kNoted = limits::kMaxLanes + 1;
inline LaneNotes& notes_of(JournalMemory& memory, size_t number) {
  return number < limits::kMaxLanes ? memory.lanes[number].notes : memory.images;
}

// A journal's file has exactly this size; pages that nobody wrote take no memory.
inline constexpr uint64_t kJournalBytes = sizeof(JournalMemory);
static_assert(offsetof(JobRecord, word) == 64);
static_assert(sizeof(JobRecord) == 64 + 128 + 2 * limits::kRandomStateRoom + kSuspicionTextBytes);

}  // namespace laneway::service
