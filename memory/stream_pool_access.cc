#include "memory/stream_pool_access.h"

#include <algorithm>
#include <cstring>
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
  std::unique_ptr<StreamPoolAccess> access(new StreamPoolAccess);
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
  return access;
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

Status StreamPoolAccess::enqueue_read(std::byte* to, const std::byte* from_pool, Bytes bytes) {
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
