// Gaps between the taken ranges of a pool, and ranges that slide into them. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "lanes/pool/region.h"
#include "memory/free_list.h"

namespace laneway::lanes {

// Highest offset of a free piece of `size` bytes.
std::optional<Bytes> highest_gap(const memory::FreeList& ranges, Bytes size);
// Lowest offset of a free piece of `size` bytes that ends at or below `limit`.
std::optional<Bytes> gap_below(const memory::FreeList& ranges, Bytes size, Bytes limit);

using Range = memory::FreeList::Range;

// How long a free piece can get at most when taken ranges slide up, and others of them are
// somewhere else. Both are ascending. Costs a look at each of these and at each free piece.
Bytes most_free_after(const memory::FreeList& ranges, std::span<const Range> sliding,
                      std::span<const Range> gone);

// The same where nothing slides.
Bytes most_free_around(const memory::FreeList& ranges, std::span<const Range> gone);

// Taken ranges while some of them slide: those from `lowest` up.
class Sliding {
 public:
  Sliding(const memory::FreeList& ranges, Bytes lowest);

  // The region's range goes up as far as it can; whether it lies elsewhere now.
  bool go_up(Region& region);
  // The same down. Requires: these are all ranges.
  bool go_down(Region& region);
  const std::vector<Range>& taken() const { return taken_; }
  // Whether one of the free pieces between them, or below them, has so many bytes.
  bool has_free(Bytes size) const;

 private:
  std::vector<Range>::iterator place(int64_t offset);
  bool move(Region& region, int64_t to);

  std::vector<Range> taken_;
  int64_t begin_ = 0;  // where what is below them ends
  const int64_t capacity_;
};

}  // namespace laneway::lanes
