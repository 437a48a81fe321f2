// IntervalPacker: places intervals of time (allocations with a size) at offsets, one after another
// in a given order, each into the best gap between those already placed that are alive with it.
// The inner loop of the planner. Reused over many orders; not thread-safe.
//
// Placed intervals are kept sorted by offset in blocks of at most kBlock, with lifetimes stored
// apart from offsets. Most of the work is to skip intervals that are alive at another time, sixteen
// in one comparison; an insertion moves one block at most.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace laneway::memory {

// An allocation as the packer sees it: alive in [begin, end) of event time.
struct Interval {
  uint64_t size = 0;
  int32_t begin = 0;
  int32_t end = 0;
};

// The gap that is chosen among those that are large enough.
enum class GapRule : uint8_t { lowest, tightest };

class IntervalPacker {
 public:
  // `intervals` must outlive the packer.
  explicit IntervalPacker(std::span<const Interval> intervals);

  struct Outcome {
    bool complete = false;  // all intervals are placed below the limit
    uint64_t peak = 0;
    size_t failed_at = 0;  // position in the order of the first interval without room
  };
  // Places the intervals of `order`, in that order; stops at the first that would end above
  // `limit`.
  Outcome pack(std::span<const uint32_t> order, GapRule rule, uint64_t limit);

  // Offsets by interval, from the last complete pack.
  const std::vector<uint64_t>& offsets() const { return offsets_; }
  // The number of pairs of intervals compared so far: the measure of work.
  uint64_t pairs() const { return pairs_; }

 private:
  static constexpr size_t kStride = 16;  // intervals compared at once
  static constexpr size_t kBlock = 64;
  struct Block {
    size_t count = 0;
    // Unused places are never alive, so that whole strides can be compared.
    std::array<int32_t, kBlock> begin;
    std::array<int32_t, kBlock> end;
    std::array<uint64_t, kBlock> offset;
    std::array<uint64_t, kBlock> top;
  };

  uint64_t find_gap(const Interval& interval, GapRule rule);
  void insert(const Interval& interval, uint64_t offset);
  // Makes `order_[position]` two blocks.
  void split(size_t position);
  uint32_t new_block();

  std::span<const Interval> intervals_;
  std::vector<uint64_t> offsets_;
  std::vector<Block> blocks_;    // in order of creation, reused by the next pack
  std::vector<uint32_t> order_;  // of the blocks in use, by offset
  uint64_t pairs_ = 0;
};

}  // namespace laneway::memory
