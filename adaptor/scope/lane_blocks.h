// LaneBlocks: the arenas that are bound now, and the blocks that outlived their iteration, for
// frees on threads without a binding. There is one object per process.
//
// An operator must not keep a block beyond its iteration: the job then ends with an error. The
// block is *escaped*: it belongs to no arena until it is freed, at any time and on any thread, and
// no iteration gets memory over it meanwhile: an arena that is bound over it adopts it as alive,
// and gives it up when it is unbound. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "memory/lane_arena.h"

namespace laneway::adaptor {

class LaneBlocks {
 public:
  // The process's object; it lives as long as the process.
  static LaneBlocks& instance();

  // Binds or unbinds an arena; it adopts the escaped blocks within it, and gives them up. Requires:
  // no iteration runs in the arena.
  void add(memory::LaneArena& arena) LW_EXCLUDES(mutex_);
  void remove(memory::LaneArena& arena) LW_EXCLUDES(mutex_);
  // Frees a block. Returns false when it is neither in a bound arena nor escaped.
  bool free(void* block) LW_EXCLUDES(mutex_);
  // Whether `memory` lies in a bound arena or in an escaped block.
  bool holds(const void* memory) LW_EXCLUDES(mutex_);
  // The number of escaped blocks within `size` bytes from `base`.
  size_t escaped_within(const std::byte* base, Bytes size) LW_EXCLUDES(mutex_);

  // For the handlers of fork(): in the child the records are consistent, the mutex is free and no
  // arena is bound, because the threads with the bindings do not exist there.
  void hold();
  void release_in_parent();
  void release_in_child();

 private:
  LaneBlocks() = default;

  Mutex mutex_;
  std::vector<memory::LaneArena*> arenas_ LW_GUARDED_BY(mutex_);
  std::map<std::byte*, size_t> escaped_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::adaptor
