#include "memory/heights.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace laneway::memory {
namespace {

// The last mark at which fewer than or exactly `done` events of one kind had happened; -1: none.
int32_t last_mark(std::span<const TapePosition> marks, uint32_t TapePosition::*kind,
                  uint32_t done) {
  const auto behind = std::upper_bound(
      marks.begin(), marks.end(), done,
      [kind](uint32_t count, const TapePosition& mark) { return count < mark.*kind; });
  return static_cast<int32_t>(behind - marks.begin()) - 1;
}

}  // namespace

std::vector<SpanRange> spans_of(const AllocationTape& tape, std::span<const TapePosition> marks) {
  const auto behind_last = static_cast<int32_t>(marks.size()) - 1;
  std::vector<SpanRange> spans(tape.allocations.size());
  for (uint32_t i = 0; i < spans.size(); ++i) {
    spans[i] = {std::max(0, last_mark(marks, &TapePosition::allocations, i)), behind_last};
  }
  for (uint32_t k = 0; k < tape.frees.size(); ++k) {
    spans[tape.frees[k]].last = last_mark(marks, &TapePosition::frees, k);
  }
  return spans;
}

Heights heights_of(const AllocationTape& tape, const Plan& plan,
                   std::span<const TapePosition> marks) {
  LW_CHECK(plan.offsets.size() == tape.allocations.size(), "a plan of another tape");
  const std::vector<SpanRange> spans = spans_of(tape, marks);
  Heights heights{std::vector<uint64_t>(marks.size(), 0), {}};
  for (size_t i = 0; i < spans.size(); ++i) {
    const uint64_t end =
        plan.offsets[i] +
        static_cast<uint64_t>(padded_size(tape.allocations[i].bytes, plan.alignment).count());
    for (int32_t k = spans[i].first; k <= spans[i].last; ++k) {
      heights.rise[static_cast<size_t>(k)] = std::max(heights.rise[static_cast<size_t>(k)], end);
    }
  }
  heights.reach = heights.rise;
  std::partial_sum(heights.reach.rbegin(), heights.reach.rend(), heights.reach.rbegin(),
                   [](uint64_t later, uint64_t own) { return std::max(later, own); });
  return heights;
}

}  // namespace laneway::memory
