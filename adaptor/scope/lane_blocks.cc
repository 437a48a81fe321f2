#include "adaptor/scope/lane_blocks.h"

namespace laneway::adaptor {

LaneBlocks& LaneBlocks::instance() {
  static auto* blocks = new LaneBlocks;  // outlives every static destructor that frees a tensor
  return *blocks;
}

void LaneBlocks::add(memory::LaneArena& arena) {
  MutexLock lock(mutex_);
  arenas_.push_back(&arena);
  if (arena.in_iteration()) return;
  for (auto entry = escaped_.begin(); entry != escaped_.end();) {
    if (arena.adopt(entry->first, entry->second)) {
      entry = escaped_.erase(entry);
    } else {
      ++entry;
    }
  }
}

void LaneBlocks::remove(memory::LaneArena& arena) {
  MutexLock lock(mutex_);
  std::erase(arenas_, &arena);
  if (arena.in_iteration()) return;
  for (const memory::LaneArena::Block& block : arena.give_up()) {
    escaped_.emplace(block.memory, block.bytes);
  }
}

bool LaneBlocks::free(void* block) {
  MutexLock lock(mutex_);
  for (memory::LaneArena* arena : arenas_) {
    if (arena->contains(block)) {
      arena->free_remote(block);
      return true;
    }
  }
  return escaped_.erase(static_cast<std::byte*>(block)) > 0;
}

bool LaneBlocks::holds(const void* memory) {
  MutexLock lock(mutex_);
  for (const memory::LaneArena* arena : arenas_) {
    if (arena->contains(memory)) return true;
  }
  const auto* const address = static_cast<const std::byte*>(memory);
  for (const auto& [block, bytes] : escaped_) {
    if (address >= block && address < block + bytes) return true;
  }
  return false;
}

size_t LaneBlocks::escaped_within(const std::byte* base, Bytes size) {
  MutexLock lock(mutex_);
  size_t count = 0;
  for (const auto& [block, bytes] : escaped_) {
    if (block + bytes > base && block < base + size.count()) ++count;
  }
  return count;
}

void LaneBlocks::hold() LW_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }

void LaneBlocks::release_in_parent() LW_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

void LaneBlocks::release_in_child() LW_NO_THREAD_SAFETY_ANALYSIS {
  arenas_.clear();
  mutex_.unlock();
}

}  // namespace laneway::adaptor
