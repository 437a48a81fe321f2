// IntervalPacker: places intervals of time (allocations with a size) at offsets, one after another
// in a given order, each into the best gap between those already placed that are alive with it.
// The inner loop of the planner. Reused over many orders; not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace laneway::memory {

// An allocation as the packer sees it: alive in [begin, end) of event time.
struct Interval {
  uint64_t size = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
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
  // Places the intervals `order` names; stops at the first that would end above `limit`.
  Outcome pack(std::span<const uint32_t> order, GapRule rule, uint64_t limit);

  // By interval, of the last complete pack.
  const std::vector<uint64_t>& offsets() const { return offsets_; }
  // Pairs of intervals looked at so far: the measure of work.
  uint64_t pairs() const { return pairs_; }

 private:
  struct Placed {
    uint64_t offset = 0;
    uint64_t end = 0;
    uint32_t index = 0;
  };
  struct Lifetime {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  uint64_t find_gap(const Interval& interval, GapRule rule, size_t* position);

  std::span<const Interval> intervals_;
  std::vector<uint64_t> offsets_;
  // Sorted by offset, in parallel: lifetimes apart so that the scan reads few bytes.
  std::vector<Lifetime> lifetimes_;
  std::vector<Placed> placed_;
  uint64_t pairs_ = 0;
};

}  // namespace laneway::memory
