// PoolMap: the pool as the core sees it: the ledger (may these bytes be claimed?) and the free list
// (where do they lie?) always changed together, so that neither can say something the other does
// not know. Images are placed from the low end, regions from the high end, which leaves the free
// bytes between them in one piece as long as possible. Every change either happens completely or
// not at all. Deterministic, not thread-safe.
//
// Invariant: sum of claims (the reserve included) <= capacity, and every claim of class persistent
// or region has exactly one range of the free list.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "lanes/region.h"
#include "memory/free_list.h"
#include "memory/ledger.h"

namespace laneway::lanes {

enum class Room : uint8_t {
  done,
  full,        // the claims leave too little
  fragmented,  // the bytes are free, but not in one piece
};

class PoolMap {
 public:
  // `reserve` is claimed at once and for good; it must be smaller than `capacity`.
  PoolMap(Bytes capacity, Bytes reserve, int64_t alignment);

  // Bytes as the pool counts them: rounded up to the alignment, one unit at least.
  Bytes rounded(Bytes bytes) const;
  // Whether an otherwise empty pool has room for both (rounded).
  bool could_ever_fit(Bytes persistent, Bytes region) const;

  // The image's offset goes to *offset.
  Room place_image(JobId job, Bytes size, Bytes* offset);
  // Takes exactly this range, which a report says is the image's; false, and nothing changed,
  // unless it is aligned, as long as an image of `size` bytes, inside the pool and free.
  bool claim_image(JobId job, Bytes size, Bytes offset, Bytes range);
  void drop_image(JobId job);

  // Fills in offset, size and claim of `region` (id and lane are the caller's).
  Room open_region(Region& region, Bytes size);
  // Takes exactly [region.offset, region.offset + region.size), which a report says is the
  // region's, and fills in the claim; false, and nothing changed, unless it is aligned, inside the
  // pool and free.
  bool claim_region(Region& region);
  void close_region(Region& region);
  // Nothing in the region is alive: grown or shrunk in place where that is possible (its high end
  // stays), else moved. Shrinking always succeeds.
  Room resize_region(Region& region, Bytes size);
  // Whether resize_region would succeed now; changes nothing.
  Room could_resize(const Region& region, Bytes size);
  // Moves the region so that it ends at or below `limit`; false, and nothing changed, when no free
  // piece below the limit is large enough.
  bool move_below(Region& region, Bytes limit);
  // Whether move_below would succeed now; changes nothing.
  bool could_move_below(const Region& region, Bytes limit) const;

  // False, and nothing changed, while claims or ranges are in the way.
  bool set_capacity(Bytes capacity);

  Bytes capacity() const { return ledger_.capacity(); }
  Bytes reserve() const { return reserve_; }
  Bytes claimed() const { return ledger_.claimed(); }
  Bytes largest_free() const { return ranges_.largest_free(); }
  const memory::Ledger& ledger() const { return ledger_; }
  const memory::FreeList& ranges() const { return ranges_; }

 private:
  // Whether the numbers, which may be any, are those of a range of whole units inside the pool.
  bool is_range(Bytes offset, Bytes size) const;
  struct Image {
    Bytes offset;
    ClaimId claim;
  };
  // Moves the range from `offset` to where `size` bytes fit; nothing, and nothing changed, if
  // nowhere.
  std::optional<Bytes> refit(Bytes offset, Bytes old_size, Bytes size);
  // Lowest offset of a free piece of `size` bytes that ends at or below `limit`.
  std::optional<Bytes> gap_below(Bytes size, Bytes limit) const;

  int64_t alignment_;
  Bytes reserve_;
  memory::Ledger ledger_;
  memory::FreeList ranges_;
  std::map<JobId, Image> images_;
};

}  // namespace laneway::lanes
