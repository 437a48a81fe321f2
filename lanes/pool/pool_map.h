// PoolMap: the pool as the core sees it: the ledger (may these bytes be claimed?) and the free list
// (where do they lie?), always changed together, so that they agree. Images are placed from the low
// end, regions from the high end, which leaves the free bytes between them in one piece as long as
// possible. Every change either happens completely or not at all. Deterministic, not thread-safe.
//
// What would be if images left or regions slid is tried in the map itself and taken back
// (pool_record.h).
//
// Invariant: sum of claims (the reserve and what is kept of images that left included) <= capacity,
// and every claim of class persistent or region has exactly one range of the free list.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "lanes/pool/image_prefix.h"
#include "lanes/pool/pool_record.h"
#include "lanes/pool/region.h"
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
  // Claims `reserve` for as long as the object lives. Requires: it is smaller than `capacity`.
  PoolMap(Bytes capacity, Bytes reserve, int64_t alignment);

  // Bytes as the pool counts them: rounded up to the alignment, one unit at least.
  Bytes rounded(Bytes bytes) const;
  // Whether an otherwise empty pool has room for image and region (rounded).
  bool could_ever_fit(Bytes persistent, Bytes region) const;

  // Places an image, and writes its offset to *offset.
  Room place_image(JobId job, Bytes size, Bytes* offset);
  // What place_image would answer.
  Room could_place_image(Bytes size) const;
  // Takes exactly this range, which is the image's in a report. Returns false and changes nothing
  // unless the range is aligned, as long as an image of `size` bytes, inside the pool and free.
  bool claim_image(JobId job, Bytes size, Bytes offset, Bytes range);
  void drop_image(JobId job);
  using ImageSize = PoolRecord::ImageSize;
  // Of all images, ascending.
  const std::vector<ImageSize>& image_sizes() { return record_.image_sizes(); }

  // Where an image may go that moves; `lower`: as `lowest`, but below its own range.
  enum class MoveTo : uint8_t { lowest, highest, lower };
  // Claims a second range for the image, apart from its own, and returns its offset. Nothing when
  // there is none: nothing is changed then. Requires: the job has an image, which does not move.
  std::optional<Bytes> begin_move(JobId job, MoveTo to);
  // The range that the image leaves (the second one, unless it `moved`) is free.
  void end_move(JobId job, bool moved);

  // The image leaves, but for its first `size` bytes, whose claim can be revoked on demand.
  // Requires: 0 < size <= the image's, a multiple of the alignment; the job has no other prefix.
  void keep_prefix(JobId job, Bytes size);
  // The prefix becomes an image of `size` bytes again that begins where the prefix does. Returns
  // false and changes nothing where there is no prefix, or no room behind it.
  bool grow_prefix(JobId job, Bytes size);
  // Takes exactly this range, which is a prefix in a report, or was one. Returns false and changes
  // nothing unless it is aligned, inside the pool and free, and the job has no other one.
  bool claim_prefix(JobId job, const ImagePrefix& prefix);
  // Frees it; returns whether there was one.
  bool drop_prefix(JobId job);
  // Of no size when there is none.
  ImagePrefix prefix_of(JobId job) const;

  // Opens a region: fills in offset, size and claim of `region`. The caller sets id and lane.
  Room open_region(Region& region, Bytes size);
  // Takes exactly [region.offset, region.offset + region.size), which is the region's in a report,
  // and fills in the claim. Returns false and changes nothing unless the range is aligned, inside
  // the pool and free.
  bool claim_region(Region& region);
  void close_region(Region& region);
  // Grows or shrinks the region in place where that is possible (its high end stays), else moves
  // it. Shrinking always succeeds. Requires: nothing in the region is alive.
  Room resize_region(Region& region, Bytes size);
  // Whether resize_region would succeed now.
  Room could_resize(const Region& region, Bytes size);
  // Moves `lowest`, if there is one, as low as it can go, then each of the regions as high as it
  // can go, until none can go higher. Carried out in that order, the highest first, no two ranges
  // ever overlap. Returns false, and changes nothing, if no free piece would have `least` bytes
  // then. Requires: nothing in them is alive.
  bool slide_up(std::vector<Region*> regions, Region* lowest, Bytes least = {});
  // Moves the region so that it ends at or below `limit`. Returns false and changes nothing when no
  // free piece below the limit is large enough.
  bool move_below(Region& region, Bytes limit);
  // Whether move_below would succeed now; changes nothing.
  bool could_move_below(const Region& region, Bytes limit) const;

  // Returns false and changes nothing while the claims, or ranges beyond the new end, do not allow
  // it. Requires: no trial.
  bool set_capacity(Bytes capacity);

  // Trials, as PoolRecord's.
  using Mark = PoolRecord::Mark;
  void begin_trial() { record_.begin_trial(); }
  Mark mark() const { return record_.mark(); }
  void take_back(Mark mark) { record_.take_back(mark); }
  void end_trial(bool frees = true) { record_.end_trial(frees); }
  bool trying() const { return record_.trying(); }
  bool freed() const { return record_.freed(); }
  bool take_freed() { return record_.take_freed(); }

  Bytes capacity() const { return ledger().capacity(); }
  Bytes reserve() const { return reserve_; }
  Bytes claimed() const { return ledger().claimed(); }
  Bytes largest_free() const { return ranges().largest_free(); }
  const memory::Ledger& ledger() const { return record_.ledger(); }
  const memory::FreeList& ranges() const { return record_.ranges(); }

 private:
  // Whether the numbers, which are not checked, are those of a range of whole units inside the
  // pool.
  bool is_range(Bytes offset, Bytes size) const;
  using Place = PoolRecord::Place;
  using Image = PoolRecord::Image;
  // Requires: the job has one.
  const Image& image_of(JobId job) const;
  void release(const Place& place);

  // Moves the range at `offset` to a place with room for `size` bytes. Nothing: there is none, and
  // what is under way must be taken back.
  std::optional<Bytes> refit(Bytes offset, Bytes size);

  int64_t alignment_;
  Bytes reserve_;
  PoolRecord record_;
};

// What is changed in the map while it lives is taken back at its end, unless it was kept: a trial
// of its own, or a part of the one that is under way.
class PoolAttempt {
 public:
  explicit PoolAttempt(PoolMap& pool)
      : pool_(pool), outermost_(!pool.trying()), begin_(pool.mark()) {
    if (outermost_) pool_.begin_trial();
  }
  ~PoolAttempt() {
    if (kept_) return;
    pool_.take_back(begin_);
    if (outermost_) pool_.end_trial();
  }
  PoolAttempt(const PoolAttempt&) = delete;
  PoolAttempt& operator=(const PoolAttempt&) = delete;

  // Requires: none that began later lives.
  void keep(bool frees = true) {
    kept_ = true;
    if (outermost_) pool_.end_trial(frees);
  }

 private:
  PoolMap& pool_;
  const bool outermost_;
  const PoolMap::Mark begin_;
  bool kept_ = false;
};

}  // namespace laneway::lanes
