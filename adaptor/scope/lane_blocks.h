// LaneBlocks: the arenas that are bound now, and the blocks that outlived their iteration, for
// frees that come from a thread without that binding. There is one for the process.
//
// An operator should keep nothing beyond its iteration: the job ends with an error when one does.
// Its block is then escaped: it belongs to no arena until it is freed, whenever and by whomever
// that is done, and no iteration gets memory at it meanwhile: an arena that is bound over it takes
// it in as alive, and gives it up again. Thread-safe.
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
  // The process's; lives as long as the process.
  static LaneBlocks& instance();

  // Escaped blocks go in and out with an arena that is between iterations.
  void add(memory::LaneArena& arena) LW_EXCLUDES(mutex_);
  void remove(memory::LaneArena& arena) LW_EXCLUDES(mutex_);
  // False when the block is neither a bound arena's nor escaped.
  bool free(void* block) LW_EXCLUDES(mutex_);
  // Whether it lies in a bound arena or in an escaped block.
  bool holds(const void* memory) LW_EXCLUDES(mutex_);
  // Escaped blocks within `size` bytes from `base`.
  size_t escaped_within(const std::byte* base, Bytes size) LW_EXCLUDES(mutex_);

  // Around fork(): the child finds everything whole, the mutex free, and no arena bound, because
  // the threads that bound them are not there.
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
