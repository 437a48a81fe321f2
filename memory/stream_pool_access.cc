#include "memory/stream_pool_access.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "memory/device/limits.h"

namespace laneway::memory {
namespace {

Bytes chunk_at(Bytes offset, Bytes bytes) { return std::min(limits::kCopyChunk, bytes - offset); }

size_t size_of(Bytes bytes) { return static_cast<size_t>(bytes.count()); }

Status require_size(const char* call, Bytes bytes) {
  if (bytes >= Bytes(0)) return {};
  return Error{ErrorCode::invalid_argument,
               std::string(call) + ": " + std::to_string(bytes.count()) + " bytes are no size"};
}

}  // namespace

Result<std::unique_ptr<StreamPoolAccess>> StreamPoolAccess::create(Device& device) {
  std::unique_ptr<StreamPoolAccess> access(new StreamPoolAccess(device));
  const MutexLock lock(access->mutex_);
  for (Chunk& chunk : access->chunks_) {
    auto memory = device.allocate_host(limits::kCopyChunk);
    if (!memory.ok()) return memory.error();
    chunk.memory = std::move(memory).value();
    auto copied = device.create_event();
    if (!copied.ok()) return copied.error();
    chunk.copied = std::move(copied).value();
  }
  auto stream = device.create_stream();
  if (!stream.ok()) return stream.error();
  access->stream_ = std::move(stream).value();
  auto started = device.create_stream();
  if (!started.ok()) return started.error();
  const MutexLock second(access->started_mutex_);
  access->started_ = std::move(started).value();
  return access;
}

// Takes its range out before it is unpinned.
class StreamPoolAccess::PinnedBlock final : public MemoryBlock {
 public:
  PinnedBlock(StreamPoolAccess& access, std::unique_ptr<MemoryBlock> block)
      : access_(access), block_(std::move(block)) {
    const MutexLock lock(access_.pins_mutex_);
    access_.pins_.emplace(block_->data(), block_->size());
  }
  ~PinnedBlock() override {
    const MutexLock lock(access_.pins_mutex_);
    access_.pins_.erase(block_->data());
  }
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  std::byte* data() const override { return block_->data(); }
  Bytes size() const override { return block_->size(); }
  int descriptor() const override { return -1; }

 private:
  StreamPoolAccess& access_;
  const std::unique_ptr<MemoryBlock> block_;
};

Bytes StreamPoolAccess::piece() const { return limits::kPinnedPiece; }

Result<std::unique_ptr<MemoryBlock>> StreamPoolAccess::pin(std::byte* memory, Bytes bytes) {
  auto pinned = device_.pin(memory, bytes);
  if (!pinned) return pinned.error();
  return std::unique_ptr<MemoryBlock>(
      std::make_unique<PinnedBlock>(*this, std::move(pinned).value()));
}

StreamPoolAccess::Run StreamPoolAccess::run_at(const void* address, Bytes bytes) const {
  const auto* const begin = static_cast<const std::byte*>(address);
  const MutexLock lock(pins_mutex_);
  const auto next = pins_.upper_bound(begin);
  if (next != pins_.begin()) {
    const auto& [pinned, size] = *std::prev(next);
    const Bytes into(begin - pinned);
    if (into < size) return {.bytes = std::min(bytes, size - into), .pinned = true};
  }
  const Bytes rest = next == pins_.end() ? bytes : std::min(bytes, Bytes(next->first - begin));
  return {.bytes = rest, .pinned = false};
}

bool StreamPoolAccess::is_pinned(const void* address, Bytes bytes) const {
  const auto* const begin = static_cast<const std::byte*>(address);
  for (Bytes at; at < bytes;) {
    const Run run = run_at(begin + at.count(), bytes - at);
    if (!run.pinned) return false;
    at += run.bytes;
  }
  return true;
}

Result<std::shared_ptr<Event>> StreamPoolAccess::start_write(void* to_pool, const void* from,
                                                             Bytes bytes) {
  if (Status sane = require_size("write to the pool", bytes); !sane) return sane.error();
  if (!is_pinned(from, bytes)) return PoolAccess::start_write(to_pool, from, bytes);
  auto there = device_.create_event();
  if (!there) return there.error();
  auto* const to = static_cast<std::byte*>(to_pool);
  const auto* const begin = static_cast<const std::byte*>(from);
  const MutexLock lock(started_mutex_);
  Status sent;
  // A copy that crosses the border of two pinned ranges is none that the driver takes.
  for (Bytes at; sent && at < bytes;) {
    const Run run = run_at(begin + at.count(), bytes - at);
    sent = started_->copy_to_device(to + at.count(), begin + at.count(), run.bytes);
    at += run.bytes;
  }
  if (sent) sent = started_->record(*there.value());
  if (sent) return std::shared_ptr<Event>(std::move(there).value());
  // Nothing of it is under way when it is answered.
  [[maybe_unused]] const Status waited = started_->synchronize();
  return sent.error();
}

Status StreamPoolAccess::write(void* to_pool, const void* from, Bytes bytes) {
  if (Status sane = require_size("write to the pool", bytes); !sane) return sane;
  const MutexLock lock(mutex_);
  return finish(
      enqueue_write(static_cast<std::byte*>(to_pool), static_cast<const std::byte*>(from), bytes));
}

Status StreamPoolAccess::read(void* to, const void* from_pool, Bytes bytes) {
  if (Status sane = require_size("read from the pool", bytes); !sane) return sane;
  const MutexLock lock(mutex_);
  return finish(
      enqueue_read(static_cast<std::byte*>(to), static_cast<const std::byte*>(from_pool), bytes));
}

Status StreamPoolAccess::copy_within(void* to_pool, const void* from_pool, Bytes bytes) {
  if (Status sane = require_size("copy within the pool", bytes); !sane) return sane;
  const MutexLock lock(mutex_);
  return finish(stream_->copy_on_device(to_pool, from_pool, bytes));
}

Status StreamPoolAccess::fill(void* to_pool, std::byte value, Bytes bytes) {
  if (Status sane = require_size("fill of the pool", bytes); !sane) return sane;
  const MutexLock lock(mutex_);
  return finish(stream_->fill(to_pool, value, bytes));
}

Status StreamPoolAccess::enqueue_write(std::byte* to_pool, const std::byte* from, Bytes bytes) {
  for (Bytes at; at < bytes;) {
    const Run run = run_at(from + at.count(), bytes - at);
    Status sent = run.pinned
                      ? stream_->copy_to_device(to_pool + at.count(), from + at.count(), run.bytes)
                      : stage_write(to_pool + at.count(), from + at.count(), run.bytes);
    if (!sent) return sent;
    at += run.bytes;
  }
  return {};
}

Status StreamPoolAccess::enqueue_read(std::byte* to, const std::byte* from_pool, Bytes bytes) {
  for (Bytes at; at < bytes;) {
    const Run run = run_at(to + at.count(), bytes - at);
    Status sent = run.pinned
                      ? stream_->copy_to_host(to + at.count(), from_pool + at.count(), run.bytes)
                      : stage_read(to + at.count(), from_pool + at.count(), run.bytes);
    if (!sent) return sent;
    at += run.bytes;
  }
  return {};
}

Status StreamPoolAccess::stage_write(std::byte* to_pool, const std::byte* from, Bytes bytes) {
  size_t index = 0;
  for (Bytes at; at < bytes; at += limits::kCopyChunk, index ^= 1) {
    Chunk& chunk = chunks_[index];
    if (Status free = chunk.copied->synchronize(); !free) return free;
    const Bytes now = chunk_at(at, bytes);
    std::memcpy(chunk.memory->data(), from + at.count(), size_of(now));
    if (Status sent = stream_->copy_to_device(to_pool + at.count(), chunk.memory->data(), now);
        !sent) {
      return sent;
    }
    if (Status marked = stream_->record(*chunk.copied); !marked) return marked;
  }
  return {};
}

Status StreamPoolAccess::stage_read(std::byte* to, const std::byte* from_pool, Bytes bytes) {
  size_t index = 0;
  if (bytes > Bytes(0)) {
    if (Status sent = start_read(index, from_pool, chunk_at(Bytes(0), bytes)); !sent) return sent;
  }
  for (Bytes at; at < bytes; at += limits::kCopyChunk, index ^= 1) {
    if (const Bytes next = at + limits::kCopyChunk; next < bytes) {
      Status sent = start_read(index ^ 1, from_pool + next.count(), chunk_at(next, bytes));
      if (!sent) return sent;
    }
    Chunk& chunk = chunks_[index];
    if (Status there = chunk.copied->synchronize(); !there) return there;
    std::memcpy(to + at.count(), chunk.memory->data(), size_of(chunk_at(at, bytes)));
  }
  return {};
}

Status StreamPoolAccess::start_read(size_t index, const std::byte* from_pool, Bytes bytes) {
  Chunk& chunk = chunks_[index];
  if (Status sent = stream_->copy_to_host(chunk.memory->data(), from_pool, bytes); !sent) {
    return sent;
  }
  return stream_->record(*chunk.copied);
}

Status StreamPoolAccess::finish(Status status) {
  Status done = stream_->synchronize();
  return status.ok() ? done : status;
}

}  // namespace laneway::memory
