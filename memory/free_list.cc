#include "memory/free_list.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "base/check.h"

namespace laneway::memory {

FreeList::FreeList(Bytes capacity, int64_t alignment)
    : alignment_(alignment), capacity_(capacity.count() & ~(alignment - 1)) {
  LW_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0,
           "alignment " + std::to_string(alignment) + " is no power of two");
  LW_CHECK(capacity.count() >= 0);
  if (capacity_ > 0) add_piece(0, capacity_);
}

int64_t FreeList::rounded(Bytes size) const {
  LW_CHECK(size.count() >= 0, "a range of " + std::to_string(size.count()) + " bytes");
  return std::max(size.count(), int64_t{1}) > std::numeric_limits<int64_t>::max() - alignment_
             ? std::numeric_limits<int64_t>::max()
             : Bytes(std::max(size.count(), int64_t{1})).aligned_up(alignment_).count();
}

std::optional<Bytes> FreeList::allocate(Bytes size, Placement placement) {
  const int64_t need = rounded(size);
  auto best = first_of_size(need);
  if (best == free_by_size_.end()) return std::nullopt;
  if (placement == Placement::highest) {  // the last among the pieces of this same size
    best = std::prev(first_of_size(best->size + 1));
  }
  const auto [piece_size, piece_offset] = *best;
  const int64_t offset =
      placement == Placement::lowest ? piece_offset : piece_offset + piece_size - need;
  carve(free_.find(piece_offset), offset, need);
  taken_.emplace(offset, need);
  return Bytes(offset);
}

std::optional<Bytes> FreeList::find(Bytes size) const {
  const auto best = first_of_size(rounded(size));
  if (best == free_by_size_.end()) return std::nullopt;
  return Bytes(best->offset);
}

bool FreeList::allocate_at(Bytes offset, Bytes size) {
  const int64_t start = offset.count();
  const int64_t need = rounded(size);
  LW_CHECK(start >= 0 && start % alignment_ == 0,
           "offset " + std::to_string(start) + " is not a multiple of the alignment");
  auto piece = free_.upper_bound(start);
  if (piece == free_.begin()) return false;
  --piece;
  if (piece->second < need || start > piece->first + piece->second - need) return false;
  carve(piece, start, need);
  taken_.emplace(start, need);
  return true;
}

void FreeList::free(Bytes offset) {
  const auto range = taken_.find(offset.count());
  LW_CHECK(range != taken_.end(),
           "offset " + std::to_string(offset.count()) + " is not the start of a taken range");
  const int64_t size = range->second;
  taken_.erase(range);
  add_piece(offset.count(), size);
}

std::optional<Bytes> FreeList::resize(Bytes offset, Bytes size, Placement kept_end) {
  const int64_t start = offset.count();
  const auto range = taken_.find(start);
  LW_CHECK(range != taken_.end(),
           "offset " + std::to_string(start) + " is not the start of a taken range");
  const int64_t old_size = range->second;
  const int64_t new_size = rounded(size);
  const int64_t new_start = kept_end == Placement::lowest ? start : start + old_size - new_size;
  if (new_size > old_size) {
    const int64_t more = new_size - old_size;
    const int64_t from = kept_end == Placement::lowest ? start + old_size : new_start;
    if (from < 0) return std::nullopt;
    auto piece = free_.upper_bound(from);
    if (piece == free_.begin()) return std::nullopt;
    --piece;
    if (piece->second < more || from > piece->first + piece->second - more) return std::nullopt;
    carve(piece, from, more);
  } else if (new_size < old_size) {
    add_piece(kept_end == Placement::lowest ? start + new_size : start, old_size - new_size);
  }
  taken_.erase(range);
  taken_.emplace(new_start, new_size);
  return Bytes(new_start);
}

std::vector<FreeList::Range> FreeList::pieces_between(int64_t begin,
                                                      std::span<const Range> ranges) const {
  std::vector<Range> pieces;
  int64_t end_of_last = begin;
  for (const auto& [offset, size] : ranges) {
    LW_CHECK(offset >= end_of_last, "two taken ranges overlap");
    if (offset > end_of_last) pieces.push_back({end_of_last, offset - end_of_last});
    end_of_last = offset + size;
  }
  LW_CHECK(end_of_last <= capacity_, "a taken range ends behind the space");
  if (capacity_ > end_of_last) pieces.push_back({end_of_last, capacity_ - end_of_last});
  return pieces;
}

void FreeList::set_taken_from(Bytes lowest, std::span<const Range> ranges) {
  const auto first = taken_.lower_bound(lowest.count());
  const bool is_lowest = first == taken_.begin();
  const int64_t begin = is_lowest ? 0 : std::prev(first)->first + std::prev(first)->second;
  const auto old_piece = free_.lower_bound(begin);
  const std::vector<Range> pieces = pieces_between(begin, ranges);
  // Most may be as before.
  const auto only_in = [](std::span<const Range> some, std::span<const Range> others) {
    std::vector<Range> found;
    std::set_difference(some.begin(), some.end(), others.begin(), others.end(),
                        std::back_inserter(found));
    BySize sizes;
    for (const auto& [offset, size] : found) sizes.push_back({size, offset});
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  };
  const std::span<const Range> old_pieces(old_piece, free_.end());
  const BySize gone = only_in(old_pieces, pieces);
  const BySize came = only_in(pieces, old_pieces);
  BySize stay;
  std::set_difference(free_by_size_.begin(), free_by_size_.end(), gone.begin(), gone.end(),
                      std::back_inserter(stay));
  free_by_size_.clear();
  std::merge(stay.begin(), stay.end(), came.begin(), came.end(), std::back_inserter(free_by_size_));
  for (const SizedPiece& piece : gone) free_bytes_ -= piece.size;
  for (const SizedPiece& piece : came) free_bytes_ += piece.size;
  free_.replace_from(old_piece, pieces);
  taken_.replace_from(first, ranges);
}

bool FreeList::set_capacity(Bytes capacity) {
  LW_CHECK(capacity.count() >= 0);
  const int64_t end = capacity.count() & ~(alignment_ - 1);
  if (end > capacity_) {
    const int64_t from = capacity_;
    capacity_ = end;
    add_piece(from, end - from);
    return true;
  }
  if (end == capacity_) return true;
  if (free_.empty()) return false;
  const auto last = std::prev(free_.end());
  if (last->first + last->second != capacity_ || last->first > end) return false;
  carve(last, end, capacity_ - end);
  capacity_ = end;
  return true;
}

Bytes FreeList::largest_free() const {
  return Bytes(free_by_size_.empty() ? 0 : free_by_size_.rbegin()->size);
}

Bytes FreeList::largest_free_below(Bytes limit) const {
  int64_t best = 0;
  for (auto piece = free_by_size_.rbegin(); piece != free_by_size_.rend(); ++piece) {
    const auto [size, offset] = *piece;
    if (size <= best) break;
    best = std::max(best, std::min(offset + size, limit.count()) - offset);
  }
  return Bytes(best);
}

Bytes FreeList::size_of(Bytes offset) const {
  const auto range = taken_.find(offset.count());
  LW_CHECK(range != taken_.end(),
           "offset " + std::to_string(offset.count()) + " is not the start of a taken range");
  return Bytes(range->second);
}

FreeList::BySize::const_iterator FreeList::first_of_size(int64_t size) const {
  return std::lower_bound(free_by_size_.begin(), free_by_size_.end(), SizedPiece{size, 0});
}

void FreeList::insert_piece(int64_t offset, int64_t size) {
  free_.emplace(offset, size);
  const SizedPiece entry{size, offset};
  free_by_size_.insert(std::lower_bound(free_by_size_.begin(), free_by_size_.end(), entry), entry);
  free_bytes_ += size;
}

FreeList::PieceMap::iterator FreeList::remove_piece(PieceMap::iterator piece) {
  free_bytes_ -= piece->second;
  const SizedPiece entry{piece->second, piece->first};
  free_by_size_.erase(std::lower_bound(free_by_size_.begin(), free_by_size_.end(), entry));
  return free_.erase(piece);
}

void FreeList::add_piece(int64_t offset, int64_t size) {
  auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      after = remove_piece(before);
    }
  }
  if (after != free_.end() && offset + size == after->first) {
    size += after->second;
    remove_piece(after);
  }
  insert_piece(offset, size);
}

void FreeList::carve(PieceMap::iterator piece, int64_t offset, int64_t size) {
  const auto [piece_offset, piece_size] = *piece;
  remove_piece(piece);
  if (offset > piece_offset) insert_piece(piece_offset, offset - piece_offset);
  const int64_t end = offset + size;
  const int64_t piece_end = piece_offset + piece_size;
  if (piece_end > end) insert_piece(end, piece_end - end);
}

}  // namespace laneway::memory
