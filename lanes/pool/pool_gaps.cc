#include "lanes/pool/pool_gaps.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace laneway::lanes {
namespace {

// The range at `own` counts as free.
template <class Taken>
std::optional<int64_t> highest_gap_in(const Taken& taken, int64_t capacity, int64_t size,
                                      std::optional<int64_t> own = {}) {
  int64_t begin_of_last = capacity;
  for (auto range = taken.rbegin(); range != taken.rend(); ++range) {
    if (range->first == own) continue;
    if (begin_of_last - (range->first + range->second) >= size) break;
    begin_of_last = range->first;
  }
  if (begin_of_last < size) return std::nullopt;
  return begin_of_last - size;
}

template <class Taken>
std::optional<int64_t> gap_below_in(const Taken& taken, int64_t size, int64_t limit,
                                    std::optional<int64_t> own = {}) {
  int64_t end_of_last = 0;
  for (const auto& [offset, length] : taken) {
    if (offset == own) continue;
    if (std::min(offset, limit) - end_of_last >= size) return end_of_last;
    end_of_last = offset + length;
  }
  if (limit - end_of_last >= size) return end_of_last;
  return std::nullopt;
}

}  // namespace

Sliding::Sliding(const memory::FreeList& ranges, Bytes lowest)
    : capacity_(ranges.capacity().count()) {
  const auto first = ranges.taken().lower_bound(lowest.count());
  if (first != ranges.taken().begin()) {
    const auto below = std::prev(first);
    begin_ = below->first + below->second;
  }
  taken_.assign(first, ranges.taken().end());
}

bool Sliding::go_up(Region& region) {
  // Its own range at least.
  return move(region,
              *highest_gap_in(taken_, capacity_, region.size.count(), region.offset.count()));
}

bool Sliding::go_down(Region& region) {
  return move(region, *gap_below_in(taken_, region.size.count(), capacity_, region.offset.count()));
}

bool Sliding::has_free(Bytes size) const {
  int64_t end_of_last = begin_;
  for (const auto& [offset, length] : taken_) {
    if (offset - end_of_last >= size.count()) return true;
    end_of_last = offset + length;
  }
  return capacity_ - end_of_last >= size.count();
}

std::vector<Range>::iterator Sliding::place(int64_t offset) {
  return std::lower_bound(taken_.begin(), taken_.end(), offset,
                          [](const Range& range, int64_t at) { return range.first < at; });
}

bool Sliding::move(Region& region, int64_t to) {
  if (region.offset.count() == to) return false;
  const auto from = place(region.offset.count());
  LW_CHECK(from != taken_.end() && from->first == region.offset.count(), "no such range");
  auto there = place(to);
  // The others between the two move by one place.
  if (there > from) {
    there = std::rotate(from, std::next(from), there);
  } else {
    std::rotate(there, from, std::next(from));
  }
  *there = {to, region.size.count()};
  region.offset = Bytes(to);
  return true;
}

std::optional<Bytes> highest_gap(const memory::FreeList& ranges, Bytes size) {
  const auto gap = highest_gap_in(ranges.taken(), ranges.capacity().count(), size.count());
  return gap ? std::optional(Bytes(*gap)) : std::nullopt;
}

std::optional<Bytes> gap_below(const memory::FreeList& ranges, Bytes size, Bytes limit) {
  const auto gap = gap_below_in(ranges.taken(), size.count(), limit.count());
  return gap ? std::optional(Bytes(*gap)) : std::nullopt;
}

Bytes most_free_around(const memory::FreeList& ranges, std::span<const Range> gone) {
  const FlatMap<int64_t, int64_t>& taken = ranges.taken();
  Bytes most;
  while (!gone.empty()) {
    auto range = taken.find(gone.back().first);
    LW_CHECK(range != taken.end(), "no range begins there");
    const auto above = std::next(range);
    const Bytes end = above == taken.end() ? ranges.capacity() : Bytes(above->first);
    gone = gone.first(gone.size() - 1);
    // Down to one that stays.
    while (range != taken.begin() && !gone.empty() &&
           std::prev(range)->first == gone.back().first) {
      --range;
      gone = gone.first(gone.size() - 1);
    }
    const bool lowest = range == taken.begin();
    const auto below = lowest ? range : std::prev(range);
    const Bytes begin = lowest ? Bytes() : Bytes(below->first + below->second);
    most = std::max(most, end - begin);
  }
  return most;
}

// What slides up stays in its stretch between two ranges that do not slide, or goes to free bytes
// of those above. Once these suffice for all that slides below, only stretches with something in
// them that slides or is gone are looked at.
Bytes most_free_after(const memory::FreeList& ranges, std::span<const Range> sliding,
                      std::span<const Range> gone) {
  const auto last_of = [](std::span<const Range> some) {
    return some.empty() ? Range{-1, 0} : some.back();
  };
  int64_t most = ranges.largest_free().count();
  int64_t slides_below = 0;
  for (const Range& range : sliding) slides_below += range.second;
  int64_t free_above = 0;
  int64_t free = 0;   // of the stretch
  int64_t slide = 0;  // … and the bytes in it that slide
  int64_t begin = ranges.capacity().count();
  auto piece = ranges.pieces().rbegin();
  while (true) {
    Range next_free = piece == ranges.pieces().rend() ? Range{-1, 0} : *piece;
    const Range next = std::max(last_of(sliding), last_of(gone));
    const Range& highest = std::max(next, next_free);
    if (highest.first + highest.second != begin) {
      most = std::max(most, free + std::min(slide, free_above));
      free_above += free;
      slides_below -= slide;
      free = slide = 0;
      if (sliding.empty()) break;
      if (free_above >= slides_below) {
        piece =
            std::make_reverse_iterator(ranges.pieces().lower_bound(next.first + next.second + 1));
        next_free = piece == ranges.pieces().rend() ? Range{-1, 0} : *piece;
      }
    }
    begin = std::max(next, next_free).first;
    if (next < next_free) {
      free += next_free.second;
      ++piece;
    } else if (!gone.empty() && next == gone.back()) {
      free += next.second;
      gone = gone.first(gone.size() - 1);
    } else {
      slide += next.second;
      sliding = sliding.first(sliding.size() - 1);
    }
  }
  return std::max(Bytes(most), most_free_around(ranges, gone));
}

}  // namespace laneway::lanes
