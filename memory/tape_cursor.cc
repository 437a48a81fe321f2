#include "memory/tape_cursor.h"

#include <algorithm>

namespace laneway::memory {

void TapeCursor::begin(std::shared_ptr<const PlannedTape> planned) {
  planned_ = std::move(planned);
  step_ = planned_->steps.data();
  free_offsets_ = planned_->free_offsets.data();
  freed_ = 0;
  odd_frees_.clear();
}

bool TapeCursor::is_at_end() {
  return steps_taken() == planned_->tape.allocations.size() &&
         reconcile(planned_->tape.frees.size());
}

std::optional<TapePosition> TapeCursor::position() const {
  if (!in_order()) return std::nullopt;
  return TapePosition{static_cast<uint32_t>(steps_taken()), freed_};
}

bool TapeCursor::is_ahead(const TapePosition& position) const {
  return position.allocations >= steps_taken() &&
         position.allocations <= planned_->tape.allocations.size() && position.frees >= freed_ &&
         position.frees <= planned_->tape.frees.size();
}

void TapeCursor::move_to(const TapePosition& position) {
  step_ = planned_->steps.data() + position.allocations;
  freed_ = position.frees;
}

bool TapeCursor::reconcile(size_t frees) {
  if (frees < freed_ || frees - freed_ != odd_frees_.size()) return false;
  if (odd_frees_.empty()) return true;
  std::vector<uint64_t> wanted(free_offsets_ + freed_, free_offsets_ + frees);
  std::sort(wanted.begin(), wanted.end());
  std::vector<uint64_t> seen = odd_frees_;
  std::sort(seen.begin(), seen.end());
  if (wanted != seen) return false;
  odd_frees_.clear();
  freed_ = static_cast<uint32_t>(frees);
  return true;
}

}  // namespace laneway::memory
