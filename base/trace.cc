#include "base/trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <thread>

#include "base/limits.h"

namespace laneway {
namespace {

using Words = std::array<uint64_t, 4>;
static_assert(sizeof(Words) == sizeof(TraceRecord));

// Stamps of a slot: 0 never written, 2 * (n + 1) holds append n, one less while n is being written.
constexpr uint64_t written_stamp(uint64_t append) { return 2 * (append + 1); }

uint64_t rounded_capacity(uint32_t capacity) {
  return std::bit_ceil(std::clamp<uint32_t>(capacity, 1, limits::kMaxTraceRecords));
}

}  // namespace

std::string trace_kind_name(TraceKind kind) {
  switch (kind) {
    case TraceKind::job_offered: return "job_offered";
    case TraceKind::job_admitted: return "job_admitted";
    case TraceKind::job_queued: return "job_queued";
    case TraceKind::job_refused: return "job_refused";
    case TraceKind::job_ended: return "job_ended";
    case TraceKind::turn_granted: return "turn_granted";
    case TraceKind::turn_ended: return "turn_ended";
    case TraceKind::turn_recalled: return "turn_recalled";
    case TraceKind::iteration_begun: return "iteration_begun";
    case TraceKind::iteration_ended: return "iteration_ended";
    case TraceKind::iteration_abandoned: return "iteration_abandoned";
    case TraceKind::iteration_failed: return "iteration_failed";
    case TraceKind::gate_waited: return "gate_waited";
    case TraceKind::tape_recorded: return "tape_recorded";
    case TraceKind::tape_left: return "tape_left";
    case TraceKind::plan_made: return "plan_made";
    case TraceKind::region_opened: return "region_opened";
    case TraceKind::region_resized: return "region_resized";
    case TraceKind::region_closed: return "region_closed";
    case TraceKind::image_placed: return "image_placed";
    case TraceKind::image_dropped: return "image_dropped";
  }
  return "kind_" + std::to_string(static_cast<unsigned>(kind));
}

Trace::Trace(uint32_t capacity)
    : mask_(rounded_capacity(capacity) - 1), slots_(std::make_unique<Slot[]>(mask_ + 1)) {}

// A sequence lock for each slot, with ordered words instead of fences: who reads a word of a later
// append also sees that append's stamp (after Boehm, "Can seqlocks get along with programming
// language memory models?", 2012). Two appends meet in a slot only when one is a whole ring behind;
// it then waits for its turn, or drops its record when it has been overtaken.
void Trace::append(const TraceRecord& record) {
  const uint64_t number = next_.fetch_add(1, std::memory_order_acq_rel);
  Slot& slot = slots_[number & mask_];
  const uint64_t target = written_stamp(number);
  uint64_t stamp = slot.stamp.load(std::memory_order_relaxed);
  while (true) {
    if (stamp >= target) return;  // a later append has been here: ours is among the lost
    if (stamp % 2 == 1) {         // an earlier one is still writing
      std::this_thread::yield();
      stamp = slot.stamp.load(std::memory_order_relaxed);
      continue;
    }
    if (slot.stamp.compare_exchange_weak(stamp, target - 1, std::memory_order_acquire)) break;
  }
  const auto words = std::bit_cast<Words>(record);
  for (size_t i = 0; i < words.size(); ++i) {
    slot.words[i].store(words[i], std::memory_order_release);
  }
  slot.stamp.store(target, std::memory_order_release);
}

Trace::Contents Trace::read() const {
  const uint64_t end = appended();
  const uint64_t begin = end > mask_ + 1 ? end - (mask_ + 1) : 0;
  Contents contents;
  contents.records.reserve(end - begin);
  for (uint64_t number = begin; number < end; ++number) {
    const Slot& slot = slots_[number & mask_];
    if (slot.stamp.load(std::memory_order_acquire) != written_stamp(number)) continue;
    Words words;
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = slot.words[i].load(std::memory_order_acquire);
    }
    if (slot.stamp.load(std::memory_order_relaxed) != written_stamp(number)) continue;
    contents.records.push_back(std::bit_cast<TraceRecord>(words));
  }
  contents.lost = end - contents.records.size();
  return contents;
}

std::string trace_text(const Trace::Contents& contents) {
  std::string text;
  if (contents.lost > 0) text += std::to_string(contents.lost) + " records lost\n";
  const int64_t start = contents.records.empty() ? 0 : contents.records.front().time_ns;
  for (const TraceRecord& record : contents.records) {
    std::array<char, 32> when{};
    std::snprintf(when.data(), when.size(), "%+.9f",
                  static_cast<double>(record.time_ns - start) * 1e-9);
    text += when.data();
    text += " " + trace_kind_name(record.kind);
    if (record.lane != 0) text += " lane=" + std::to_string(record.lane);
    if (record.job != 0) text += " job=" + std::to_string(record.job);
    text += " " + std::to_string(record.first) + " " + std::to_string(record.second) + "\n";
  }
  return text;
}

}  // namespace laneway
