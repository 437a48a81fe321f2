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

namespace laneway::service {

inline constexpr uint64_t kJournalMagic = 0x6c6e726a'79776e6c;  // "lnwyjrnl"
inline constexpr uint32_t kJournalVersion = 3;

// What the job is at. The word is number << 3 | random half << 2 | phase; the number counts the
// requests that went through the journal.
enum class JournalPhase : uint8_t {
  idle = 0,        // number - 1 is over: its answer is in its ring slot
  running = 1,     // nothing persistent is written yet: it is run again
  committing = 2,  // an iteration writes the job's state: it cannot be run again
  writing = 3,     // a client's bytes are written over the state: it is run again, before all else
};

struct JournalHeader {
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> jobs;
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
  // How often the device failed while it had work of this job; written after the next three.
  std::atomic<uint32_t> suspicions;
  std::atomic<uint32_t> suspicion_bytes;
  std::atomic<uint64_t> suspicion_iterations;  // that were complete the last time
  alignas(64) std::atomic<uint64_t> word;
  std::array<JournalOrigin, 2> origins;  // of number n in n % 2
  std::array<JournalTotals, 2> totals;   // of all before number n in n % 2
  alignas(64) std::array<std::array<std::byte, limits::kRandomStateRoom>, 2> random;
  std::array<char, kSuspicionTextBytes> suspicion_text;  // of the last time
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
};

struct JournalMemory {
  JournalHeader header;
  alignas(64) std::array<LaneRecord, limits::kMaxLanes> lanes;
  std::array<JobRecord, limits::kMaxJobs> jobs;
};

// A journal's file has exactly this size; pages that nobody wrote take no memory.
inline constexpr uint64_t kJournalBytes = sizeof(JournalMemory);
static_assert(offsetof(JobRecord, word) == 64);
static_assert(sizeof(JobRecord) == 64 + 128 + 2 * limits::kRandomStateRoom + kSuspicionTextBytes);

}  // namespace laneway::service
