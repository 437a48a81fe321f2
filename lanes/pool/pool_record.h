// PoolRecord: what is written down of a pool: claims, ranges, and of whom they are. It changes one
// thing at a time and knows no rule; PoolMap (pool_map.h) makes changes that belong together. In a
// trial it notes what was there before each change, so that a trial costs what it does, and not a
// copy of a thousand images. Deterministic, not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/flat_map.h"
#include "base/ids.h"
#include "memory/free_list.h"
#include "memory/ledger.h"

namespace laneway::lanes {

class PoolRecord {
 public:
  struct Place {
    Bytes offset;
    ClaimId claim;
  };
  struct Image {
    Place at;
    Bytes size;
    std::optional<Place> next;  // while it moves
  };
  struct ImageSize {
    Bytes size;
    JobId job;
    friend auto operator<=>(const ImageSize&, const ImageSize&) = default;
  };

  PoolRecord(Bytes capacity, int64_t alignment) : ledger_(capacity), ranges_(capacity, alignment) {}

  const memory::Ledger& ledger() const { return ledger_; }
  const memory::FreeList& ranges() const { return ranges_; }
  // Null where the job has none. Valid until the next change.
  const Image* image(JobId job) const;
  // Of an image that left, or is coming back elsewhere. The same.
  const Place* prefix(JobId job) const;
  // Of all images, ascending. They are put in order here: most changes lie between two questions.
  const std::vector<ImageSize>& image_sizes();

  // As Ledger::claim, release and resize.
  memory::Ledger::Made enter(const memory::Claim& wanted);
  void leave(ClaimId claim);
  memory::LedgerOutcome hold(ClaimId claim, Bytes bytes);
  // As FreeList::allocate, allocate_at, free, resize and set_taken_from.
  std::optional<Bytes> take(Bytes size, memory::Placement placement);
  bool take_at(Bytes offset, Bytes size);
  void give(Bytes offset);
  std::optional<Bytes> stretch(Bytes offset, Bytes size, memory::Placement kept_end);
  void take_from(Bytes lowest, std::span<const memory::FreeList::Range> ranges);
  // None: it has none from now on.
  void set_image(JobId job, const std::optional<Image>& image);
  void set_prefix(JobId job, const std::optional<Place>& prefix);
  // Returns false and changes nothing while claims, or ranges beyond the new end, do not allow it.
  // Requires: no trial.
  bool set_capacity(Bytes capacity);

  // How much of a trial has been noted.
  using Mark = size_t;
  // What is changed from now on can be taken back. Requires: no trial.
  void begin_trial();
  Mark mark() const { return changes_.size(); }
  // Everything is as it was at the mark, which must be of this trial.
  void take_back(Mark mark);
  // What was changed and not taken back stays. Not `frees`: what that freed does not count.
  void end_trial(bool frees = true);
  bool trying() const { return trying_; }

  // Whether something that was taken is free since this was asked last, or the capacity is another
  // one; what was taken back does not count. Requires: no trial.
  bool freed() const { return freed_; }
  bool take_freed() { return std::exchange(freed_, false); }

 private:
  // Returns what was there before.
  std::optional<Image> put_image(JobId job, const std::optional<Image>& image);

  struct Taken {
    Bytes offset;
  };
  struct Given {
    Bytes offset;
    Bytes size;
  };
  struct Entered {
    ClaimId id;
  };
  struct Left {
    ClaimId id;
    memory::Claim claim;
  };
  struct Held {
    ClaimId id;
    Bytes before;
  };
  struct ImageSet {
    JobId job;
    std::optional<Image> before;
  };
  struct PrefixSet {
    JobId job;
    std::optional<Place> before;
  };
  struct RangesSet {
    Bytes from;  // the lowest
    std::vector<memory::FreeList::Range> before;
  };
  using Change = std::variant<Taken, Given, RangesSet, Entered, Left, Held, ImageSet, PrefixSet>;
  // `frees`: what was taken before is free now.
  void note(Change change, bool frees = false);
  void undo(const Change& change);

  memory::Ledger ledger_;
  memory::FreeList ranges_;
  FlatMap<JobId, Image> images_;
  // Of images_, ascending, but for those that came or went since it was asked for. Of a few of
  // these it is known which (one may have come and gone); of more it is not.
  std::vector<ImageSize> by_size_;
  static constexpr size_t kMostUnsorted = 32;
  std::vector<ImageSize> unsorted_;
  FlatMap<JobId, Place> prefixes_;
  bool trying_ = false;
  std::vector<Change> changes_;    // of the trial, the last one last
  size_t first_freed_ = SIZE_MAX;  // of them; none: SIZE_MAX
  bool freed_ = false;
};

}  // namespace laneway::lanes
