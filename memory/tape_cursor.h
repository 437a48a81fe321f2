// TapeCursor: where an iteration that replays a tape stands on it: which allocations it has made,
// and which frees, of which some may have come in another order than the tape's. It compares the
// iteration with the tape and gives the plan's offsets; whether to follow it is the caller's
// decision. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memory/planned_tape.h"
#include "memory/tape.h"

namespace laneway::memory {

class TapeCursor {
 public:
  // At the beginning of the tape.
  void begin(std::shared_ptr<const PlannedTape> planned);
  // Whether begin was ever called; the rest requires it.
  bool has_tape() const { return planned_ != nullptr; }
  const PlannedTape& planned() const { return *planned_; }
  const std::shared_ptr<const PlannedTape>& shared() const { return planned_; }

  // Whether an allocation of `bytes` now is the tape's next one; read at every allocation.
  bool is_next(size_t bytes) const {
    return step_->bytes == bytes && step_->frees_before == freed_;
  }
  // The same, with the frees so far in any order.
  bool is_next_in_any_order(size_t bytes) {
    return step_->bytes == bytes && reconcile(step_->frees_before);
  }
  const PlannedTape::Step& next() const { return *step_; }
  // Passes the next allocation and returns its offset.
  uint64_t take() { return (step_++)->offset; }

  // Whether the tape's next free is of the block at `offset`; read at every free.
  bool frees_next(uint64_t offset) const { return offset == free_offsets_[freed_]; }
  // Passes the next free.
  void take_free() { ++freed_; }
  // The size of the block that the next free is of.
  uint64_t next_freed_bytes() const {
    return planned_->tape.allocations[planned_->tape.frees[freed_]].bytes;
  }
  // Notes a free that is not the tape's next one.
  void add_odd_free(uint64_t offset) { odd_frees_.push_back(offset); }
  std::vector<uint64_t> take_odd_frees() { return std::exchange(odd_frees_, {}); }
  bool in_order() const { return odd_frees_.empty(); }

  // Whether the iteration has done all that the tape says, and whether that leaves nothing alive.
  bool is_at_end();
  bool tape_frees_all() const {
    return planned_->tape.frees.size() == planned_->tape.allocations.size();
  }

  size_t steps_taken() const { return static_cast<size_t>(step_ - planned_->steps.data()); }
  uint32_t frees_taken() const { return freed_; }
  // None when frees came in another order than the tape's.
  std::optional<TapePosition> position() const;
  // Whether `position` is on the tape and not before the present one.
  bool is_ahead(const TapePosition& position) const;
  void move_to(const TapePosition& position);

 private:
  // Whether the frees so far are the tape's first `frees` frees; if so, they are in order
  // afterwards.
  bool reconcile(size_t frees);

  const PlannedTape::Step* step_ = nullptr;  // the next allocation
  const uint64_t* free_offsets_ = nullptr;   // offsets of the tape's frees
  uint32_t freed_ = 0;                       // frees of the tape that happened, in its order
  std::vector<uint64_t> odd_frees_;          // offsets freed out of order since it last matched
  std::shared_ptr<const PlannedTape> planned_;
};

}  // namespace laneway::memory
