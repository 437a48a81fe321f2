#include "service/journal/redo_log.h"

#include <atomic>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "memory/device/streaming_copy.h"
#include "service/journal/limits.h"

namespace laneway::service {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr uint64_t kAlignment = 64;  // as kernels like their inputs

constexpr uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Reads what another process wrote: never beyond the end.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : rest_(from) {}

  template <class T>
  std::optional<T> take() {
    if (rest_.size() < aligned(sizeof(T))) return {};
    T value;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_ = rest_.subspan(aligned(sizeof(T)));
    return value;
  }
  std::optional<std::span<const std::byte>> take(uint64_t bytes) {
    if (bytes > rest_.size() || aligned(bytes) > rest_.size()) return {};
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(aligned(bytes));
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace

struct alignas(64) RedoLog::Header {
  std::atomic<uint64_t> end;  // count << 40 | bytes behind the header: one store for both
};

struct RedoLog::Stored {
  uint64_t number = 0;
  uint32_t graph = 0;
  uint32_t inputs = 0;
  uint64_t random_bytes = 0;
};

struct RedoLog::StoredInput {
  uint64_t bytes = 0;
  double real = 0;
  int64_t integer = 0;
};

namespace {

constexpr int kCountShift = 40;
constexpr uint64_t kBytesMask = (uint64_t{1} << kCountShift) - 1;

}  // namespace

Bytes RedoLog::room_for(size_t entries, Bytes bytes) {
  return Bytes(static_cast<int64_t>(sizeof(Header))) + bytes * static_cast<int64_t>(entries);
}

Bytes RedoLog::room_of(const RedoEntry& entry) {
  uint64_t bytes = aligned(sizeof(Stored)) + aligned(entry.random_state.size());
  for (const RedoInput& input : entry.inputs) {
    bytes += aligned(sizeof(StoredInput)) + aligned(input.bytes.size());
  }
  return Bytes(static_cast<int64_t>(bytes));
}

RedoLog::Header& RedoLog::header() const {
  LW_CHECK(memory_.size() >= sizeof(Header), "a redo log has memory");
  return *reinterpret_cast<Header*>(memory_.data());
}

void RedoLog::clear() { header().end.store(0, std::memory_order_release); }

Bytes RedoLog::used() const {
  return Bytes(static_cast<int64_t>(header().end.load(relaxed) & kBytesMask));
}

size_t RedoLog::count() const { return header().end.load(relaxed) >> kCountShift; }

bool RedoLog::has_room(Bytes entry) const {
  return memory_.size() >= sizeof(Header) &&
         used() + entry <= Bytes(static_cast<int64_t>(memory_.size() - sizeof(Header)));
}

void RedoLog::append(const RedoEntry& entry) {
  const Bytes bytes = room_of(entry);
  LW_CHECK(has_room(bytes), "the log has room for the entry");
  const auto used_bytes = static_cast<uint64_t>(used().count());
  std::byte* at = memory_.data() + sizeof(Header) + used_bytes;
  // A log as large as this is in no cache when its end has gone once around. A successor reads it
  // behind this process's end.
  const bool streams = room() >= limits::kStreamedLog;
  const auto put = [&](const void* from, size_t count) {
    if (streams && count >= limits::kStreamedRange) {
      memory::unordered_streaming_copy(at, from, count);
    } else if (count > 0) {
      std::memcpy(at, from, count);
    }
    at += aligned(count);
  };
  const Stored stored{.number = entry.number,
                      .graph = entry.graph,
                      .inputs = static_cast<uint32_t>(entry.inputs.size()),
                      .random_bytes = entry.random_state.size()};
  put(&stored, sizeof(stored));
  put(entry.random_state.data(), entry.random_state.size());
  for (const RedoInput& input : entry.inputs) {
    const StoredInput one{input.bytes.size(), input.real, input.integer};
    put(&one, sizeof(one));
    put(input.bytes.data(), input.bytes.size());
  }
  const uint64_t end =
      (uint64_t{count()} + 1) << kCountShift | (used_bytes + static_cast<uint64_t>(bytes.count()));
  header().end.store(end, std::memory_order_release);
}

void RedoLog::forget_from(uint64_t number) {
  uint64_t kept = 0;
  uint64_t bytes = 0;
  for (const RedoEntry& entry : entries()) {
    if (entry.number >= number) break;
    ++kept;
    bytes += static_cast<uint64_t>(room_of(entry).count());
  }
  if (kept < count()) header().end.store(kept << kCountShift | bytes, std::memory_order_release);
}

std::vector<RedoEntry> RedoLog::entries() const {
  std::vector<RedoEntry> all;
  const uint64_t end = header().end.load(std::memory_order_acquire);
  const uint64_t bytes = end & kBytesMask;
  if (bytes > memory_.size() - sizeof(Header)) return all;
  Reader reader(memory_.subspan(sizeof(Header), bytes));
  for (uint64_t left = end >> kCountShift; left > 0; --left) {
    const auto stored = reader.take<Stored>();
    if (!stored) return all;
    const auto random = reader.take(stored->random_bytes);
    if (!random) return all;
    RedoEntry entry{stored->number, stored->graph, *random, {}};
    for (uint32_t i = 0; i < stored->inputs; ++i) {
      const auto one = reader.take<StoredInput>();
      const auto content = one ? reader.take(one->bytes) : std::nullopt;
      if (!content) return all;
      entry.inputs.push_back({*content, one->real, one->integer});
    }
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace laneway::service
