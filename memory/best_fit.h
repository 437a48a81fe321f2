// BestFit: blocks of a lane's memory, each placed where it fits best among those that are alive,
// and the tape of what an iteration allocates and frees. Offsets only: it knows no addresses.
// Blocks may outlive their iteration. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "memory/free_list.h"
#include "memory/tape.h"
#include "memory/tape_cursor.h"

namespace laneway::memory {

class BestFit {
 public:
  // What an iteration used.
  struct Use {
    Bytes peak;                // end of the highest byte that was allocated
    uint64_t allocations = 0;  // of this iteration
    Bytes live_bytes;  // still alive, in requested sizes; memory of earlier iterations included
    uint64_t live_count = 0;
    uint64_t older_count = 0;  // the part of live_count from earlier iterations
    std::optional<AllocationTape> tape;
  };
  struct Block {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  explicit BestFit(int64_t alignment);

  // An iteration begins, with an empty tape.
  void begin();
  // An iteration that has followed a tape goes on here: what is alive, and the tape so far, are
  // those at the cursor. The cursor's odd frees are not done yet. Requires: nothing is alive here.
  void begin_at(const TapeCursor& cursor);
  // The iteration is over; what is alive belongs to an earlier one from now on.
  Use end();

  // The offset of a new block, or nothing when there is no room below `capacity`.
  std::optional<uint64_t> allocate(size_t bytes, Bytes capacity);
  // Returns the size of the block. Requires: it is alive.
  uint64_t free(uint64_t offset);
  // A block of an earlier iteration, from elsewhere. Returns false when the room is taken.
  bool adopt(uint64_t offset, size_t bytes);
  // Forgets all blocks and returns them.
  std::vector<Block> give_up();
  void forget() { live_.clear(); }

  // The present position of the tape.
  TapePosition position() const;
  uint64_t allocations() const { return tape_.allocations.size(); }
  uint64_t live_count() const { return live_.size(); }
  // Whether the blocks that are alive are those of `position` of the tape.
  bool is_alive_as_at(const PlannedTape& planned, const TapePosition& position) const;
  // Below `capacity`: all free bytes, and the longest free piece.
  Bytes free_below(Bytes capacity) const;
  Bytes largest_free_below(Bytes capacity) const;

 private:
  struct Live {
    uint64_t bytes = 0;
    uint32_t index = 0;  // in the tape being recorded; kOlder: from an earlier iteration
  };
  static constexpr uint32_t kOlder = UINT32_MAX;

  const int64_t alignment_;
  FreeList space_;  // unbounded: the lane's end is checked separately
  std::unordered_map<uint64_t, Live> live_;
  AllocationTape tape_;  // being recorded
  Bytes peak_;
};

}  // namespace laneway::memory
