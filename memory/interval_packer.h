// IntervalPacker: places intervals of time (allocations with a size) at offsets, one after another
// in a given order, each into the best gap between those already placed that are alive with it.
// The inner loop of the planner. Reused over many orders; not thread-safe.
//
// What is placed is kept sorted by offset in blocks of at most kBlock, lifetimes apart from
// offsets: most of the work is to pass over intervals of another time, sixteen in one comparison,
// and an insertion moves one block at most.
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

// Into which of the gaps that are large enough.
enum class GapRule : uint8_t { lowest, tightest };

class IntervalPacker {
 public:
  // `intervals` must outlive the packer.
  explicit IntervalPacker(std::span<const Interval> intervals);

  struct Outcome {
    bool complete = false;  // all placed below the limit
    uint64_t peak = 0;
    size_t failed_at = 0;  // position in the order of the first that had no room
  };
  // Places the intervals that `order` names; stops at the first that would end above `limit`.
  Outcome pack(std::span<const uint32_t> order, GapRule rule, uint64_t limit);

  // By interval, of the last complete pack.
  const std::vector<uint64_t>& offsets() const { return offsets_; }
  // Pairs of intervals looked at so far: the measure of work.
  uint64_t pairs() const { return pairs_; }

 private:
  static constexpr size_t kStride = 16;  // compared at once
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
