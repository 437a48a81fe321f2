// FreeList: records which ranges of [0, capacity) are taken. It hands out offsets only and touches
// no memory, so the same class serves the pool (images from the bottom, regions from the top) and a
// lane's best-fit allocator. Best fit: the smallest free piece that is large enough, so that large
// pieces stay whole; neighbouring free pieces are always merged. Every size is rounded up to the
// alignment, hence every offset is a multiple of it. Not thread-safe.
//
// Invariants: free pieces and taken ranges together tile [0, capacity) exactly; no two free pieces
// touch.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/flat_map.h"

namespace laneway::memory {

// The end that an allocation favours: `lowest` takes the lowest address among equally good pieces
// and cuts from the piece's low end, `highest` the reverse. Two kinds of tenants that use different
// ends leave the free bytes between them in one piece.
enum class Placement : uint8_t { lowest, highest };

// The capacity of a space that is never full: its top piece stays the largest and is therefore used
// last, so the offsets of best fit do not depend on the real size of the memory.
inline constexpr Bytes kUnboundedLane = Bytes(int64_t{1} << 60);

class FreeList {
 public:
  // Requires: `alignment` is a power of two. `capacity` is rounded down to a multiple of it.
  FreeList(Bytes capacity, int64_t alignment);

  // Takes a range of at least `size` bytes (a size of 0 takes one unit of alignment). Returns its
  // offset, or nothing when no free piece is large enough.
  std::optional<Bytes> allocate(Bytes size, Placement placement = Placement::lowest);
  // Where allocate(size) would take its range; nothing when it could not.
  std::optional<Bytes> find(Bytes size) const;
  // Takes exactly the range at `offset`, which must be a multiple of the alignment. Returns false
  // and changes nothing unless all of the range is free.
  bool allocate_at(Bytes offset, Bytes size);
  // Gives a taken range back. Requires: `offset` is the offset that allocate, allocate_at or resize
  // returned last for this range.
  void free(Bytes offset);

  // Makes the range at `offset` `size` bytes long without moving the end that `kept_end` names:
  // `lowest` grows and shrinks at the top, `highest` at the bottom. Returns the range's new offset,
  // or changes nothing and returns nothing when the neighbour in that direction is too small or
  // taken.
  std::optional<Bytes> resize(Bytes offset, Bytes size, Placement kept_end = Placement::lowest);
  using Range = FlatMap<int64_t, int64_t>::Entry;  // offset and size
  // Many ranges lie elsewhere at once: from now on these are the taken ones from `lowest` up. Costs
  // about a look at each free piece, however many ranges there are. Requires: whole units inside
  // the space, ascending, of which no two overlap, nor one that begins below `lowest`.
  void set_taken_from(Bytes lowest, std::span<const Range> ranges);
  // Moves the end of the space. Returns false and changes nothing when a taken range lies beyond
  // the new end.
  bool set_capacity(Bytes capacity);

  Bytes capacity() const { return Bytes(capacity_); }
  Bytes free_bytes() const { return Bytes(free_bytes_); }
  Bytes taken_bytes() const { return Bytes(capacity_ - free_bytes_); }
  size_t taken_count() const { return taken_.size(); }
  size_t free_pieces() const { return free_.size(); }
  // Length of the longest free piece; 0 when nothing is free.
  Bytes largest_free() const;
  // Length of the longest run of free bytes that ends at or before `limit`.
  Bytes largest_free_below(Bytes limit) const;
  // Length of the taken range at `offset`. Requires: a taken range begins there.
  Bytes size_of(Bytes offset) const;
  // The taken ranges, offset to size, ascending; maps of the pool are made from them.
  const FlatMap<int64_t, int64_t>& taken() const { return taken_; }
  // The same of the free pieces.
  const FlatMap<int64_t, int64_t>& pieces() const { return free_; }

 private:
  using PieceMap = FlatMap<int64_t, int64_t>;
  struct SizedPiece {
    int64_t size;
    int64_t offset;
    friend auto operator<=>(const SizedPiece&, const SizedPiece&) = default;
  };
  using BySize = std::vector<SizedPiece>;  // ascending

  int64_t rounded(Bytes size) const;
  // What the ranges leave free from `begin` on.
  std::vector<Range> pieces_between(int64_t begin, std::span<const Range> ranges) const;
  // The first free piece of at least that size.
  BySize::const_iterator first_of_size(int64_t size) const;
  void add_piece(int64_t offset, int64_t size);               // merges it with its neighbours
  void insert_piece(int64_t offset, int64_t size);            // without merging
  PieceMap::iterator remove_piece(PieceMap::iterator piece);  // the one behind it
  // Cuts [offset, offset + size) out of the free piece that contains it.
  void carve(PieceMap::iterator piece, int64_t offset, int64_t size);

  int64_t alignment_;
  int64_t capacity_;
  int64_t free_bytes_ = 0;
  PieceMap free_;
  BySize free_by_size_;
  PieceMap taken_;
};

}  // namespace laneway::memory
