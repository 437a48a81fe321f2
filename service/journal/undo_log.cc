#include "service/journal/undo_log.h"

#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/fault_point.h"
#include "memory/device/streaming_copy.h"
#include "service/journal/limits.h"

namespace laneway::service {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto release = std::memory_order_release;
constexpr uint64_t kAlignment = 64;  // of ranges, so that large ones are copied fast

constexpr uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void copy_cached(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace

// alignas(64): each store has a cache line of its own with what belongs to it.
struct alignas(64) UndoLog::Header {
  std::atomic<uint64_t> job;     // 0: nobody's
  std::atomic<uint64_t> number;  // of the request
  std::atomic<uint64_t> saved;   // bytes of ranges behind the header
};

struct alignas(64) UndoLog::Range {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

Bytes UndoLog::room_for(size_t ranges, Bytes bytes) {
  return Bytes(static_cast<int64_t>(sizeof(Header) + ranges * (sizeof(Range) + kAlignment))) +
         bytes;
}

UndoLog::Header& UndoLog::header() const { return *reinterpret_cast<Header*>(memory_.data()); }

void UndoLog::begin(JobId job, uint64_t number, Bytes expected) {
  LW_CHECK(memory_.size() >= sizeof(Header), "an undo log has memory");
  streams_ = expected >= limits::kStreamedLog;
  Header& mine = header();
  mine.job.store(0, release);
  mine.saved.store(0, release);
  mine.number.store(number, release);
  mine.job.store(job.value(), release);
}

void UndoLog::forget() {
  if (memory_.size() >= sizeof(Header)) header().job.store(0, release);
}

std::optional<UndoLog::Room> UndoLog::lay_out(uint64_t from, uint64_t offset, uint64_t bytes) {
  const uint64_t next = from + sizeof(Range) + aligned(bytes);
  if (next > memory_.size() - sizeof(Header)) return {};
  const std::span<std::byte> at = memory_.subspan(sizeof(Header) + from);
  const Range range{.offset = offset, .bytes = bytes};
  std::memcpy(at.data(), &range, sizeof(range));
  return Room{.bytes = at.subspan(sizeof(range), bytes), .end = next};
}

std::atomic<uint64_t>& UndoLog::saved() const { return header().saved; }

bool UndoLog::save(uint64_t offset, std::span<const std::byte> bytes) {
  Header& mine = header();
  const auto room = lay_out(mine.saved.load(relaxed), offset, bytes.size());
  if (!room) return false;
  // Nobody reads the log but this thread, and a successor behind this process's end.
  const bool streamed = streams_ && bytes.size() >= limits::kStreamedRange;
  const auto copy = streamed ? memory::unordered_streaming_copy : copy_cached;
  copy(room->bytes.data(), bytes.data(), bytes.size());
  fault_point("worker.range_copied");
  mine.saved.store(room->end, release);
  // What is written next must not be moved before the store.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  fault_point("worker.range_saved");
  return true;
}

bool UndoLog::is_of(JobId job, uint64_t number) const {
  if (memory_.size() < sizeof(Header) || !job.valid()) return false;
  const Header& mine = header();
  return mine.job.load(std::memory_order_acquire) == job.value() &&
         mine.number.load(relaxed) == number;
}

bool UndoLog::restore(std::span<std::byte> image) const {
  return restore(image.size(), [image](uint64_t offset, std::span<const std::byte> bytes) {
    std::memcpy(image.data() + offset, bytes.data(), bytes.size());
    return true;
  });
}

bool UndoLog::restore(uint64_t image_bytes, const Write& write) const {
  const uint64_t saved = header().saved.load(std::memory_order_acquire);
  if (saved > memory_.size() - sizeof(Header)) return false;
  const std::byte* const ranges = memory_.data() + sizeof(Header);
  for (uint64_t at = 0; at < saved;) {
    Range range;
    if (saved - at < sizeof(range)) return false;
    std::memcpy(&range, ranges + at, sizeof(range));
    at += sizeof(range);
    if (range.bytes > saved - at || range.bytes > image_bytes ||
        range.offset > image_bytes - range.bytes) {
      return false;
    }
    if (!write(range.offset, {ranges + at, range.bytes})) return false;
    at += aligned(range.bytes);
    fault_point("worker.range_restored");
  }
  return true;
}

}  // namespace laneway::service
