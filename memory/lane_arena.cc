#include "memory/lane_arena.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace laneway::memory {

LaneArena::LaneArena(int64_t alignment, std::optional<unsigned char> poison)
    : alignment_(alignment), poison_(poison), best_fit_(alignment) {}

std::optional<unsigned char> LaneArena::poison_asked_for() {
  const char* value = std::getenv("LANEWAY_POISON");
  const std::string_view asked = value == nullptr ? "" : value;
  if (asked == "1") return kPoison;
  if (asked.size() != 4 || !asked.starts_with("0x")) return std::nullopt;
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(asked.begin() + 2, asked.end(), byte, 16);
  if (error != std::errc() || end != asked.end()) return std::nullopt;
  return byte;
}

void LaneArena::bind(std::byte* base, Bytes capacity) {
  LW_CHECK(mode_ == Mode::idle, "a lane is bound inside an iteration");
  drain_remote();
  LW_CHECK(best_fit_.live_count() == 0, "a lane is bound while " +
                                            std::to_string(best_fit_.live_count()) +
                                            " of its allocations are alive");
  LW_CHECK(reinterpret_cast<uintptr_t>(base) % static_cast<uintptr_t>(alignment_) == 0,
           "a lane's memory is not aligned to " + std::to_string(alignment_));
  LW_CHECK(capacity >= Bytes(0));
  base_ = base;
  capacity_ = capacity;
}

bool LaneArena::adopt(std::byte* memory, size_t bytes) {
  LW_CHECK(mode_ == Mode::idle, "a lane adopts memory inside an iteration");
  return contains(memory) && best_fit_.adopt(offset_of(memory), bytes);
}

std::vector<LaneArena::Block> LaneArena::give_up() {
  LW_CHECK(mode_ == Mode::idle, "a lane gives memory up inside an iteration");
  drain_remote();
  std::vector<Block> blocks;
  for (const auto& [offset, bytes] : best_fit_.give_up()) blocks.push_back({base_ + offset, bytes});
  return blocks;
}

void LaneArena::start_best_fit() {
  mode_ = Mode::best_fit;
  fast_ = false;
  best_fit_.begin();
}

void LaneArena::begin_probe() {
  LW_CHECK(mode_ == Mode::idle, "an iteration begins inside another");
  drain_remote();
  off_tape_ = false;
  start_best_fit();
}

void LaneArena::begin_planned(std::shared_ptr<const PlannedTape> planned) {
  LW_CHECK(mode_ == Mode::idle, "an iteration begins inside another");
  LW_CHECK(planned->plan.alignment == alignment_, "a plan of another alignment");
  drain_remote();
  off_tape_ = best_fit_.live_count() > 0;
  if (off_tape_) return start_best_fit();
  mode_ = Mode::planned;
  cursor_.begin(std::move(planned));
  fast_ = may_be_fast();
}

void LaneArena::skip_rest() {
  LW_CHECK(mode_ == Mode::planned, "the rest of an iteration is skipped off its plan");
  LW_CHECK(plan_fits() && cursor_.tape_frees_all(),
           "what is skipped lies within the lane and leaves nothing there");
  rest_skipped_ = true;
  fast_ = false;
}

void LaneArena::skip_to(const TapePosition& position) {
  LW_CHECK(mode_ == Mode::planned && cursor_.in_order(),
           "a part of an iteration is skipped off its plan");
  LW_CHECK(plan_fits() && cursor_.is_ahead(position),
           "what is skipped lies ahead, within the lane");
  cursor_.move_to(position);
  part_skipped_ = true;
}

bool LaneArena::go_back(const TapePosition& position) {
  LW_CHECK(mode_ != Mode::idle && cursor_.has_tape() && !rest_skipped_ && !part_skipped_,
           "an iteration goes back that followed no plan");
  drain_remote();
  refused_ = kNoneRefused;
  went_back_ = true;
  if (mode_ == Mode::planned) leave_tape();
  off_tape_ = !best_fit_.is_alive_as_at(cursor_.planned(), position);
  if (off_tape_) return false;
  best_fit_.forget();
  mode_ = Mode::planned;
  cursor_.move_to(position);
  fast_ = may_be_fast();
  return true;
}

std::optional<TapePosition> LaneArena::position() {
  drain_remote();
  return mode_ == Mode::planned ? cursor_.position() : std::nullopt;
}

void LaneArena::mark() {
  LW_CHECK(mode_ != Mode::idle, "a mark outside an iteration");
  drain_remote();
  const std::optional<TapePosition> now =
      mode_ == Mode::planned ? cursor_.position() : best_fit_.position();
  if (now) marks_.push_back(*now);
  lost_a_mark_ = lost_a_mark_ || !now;
}

void LaneArena::refuse_at(uint64_t index) {
  LW_CHECK(mode_ == Mode::idle, "a refusal is set inside an iteration");
  refused_ = index;
}

void* LaneArena::allocate_slow(size_t bytes) {
  LW_CHECK(mode_ != Mode::idle, "an allocation outside an iteration");
  LW_CHECK(!rest_skipped_, "an allocation behind what was skipped");
  drain_remote();
  if (mode_ == Mode::planned) {
    if (cursor_.is_next_in_any_order(bytes)) {
      fast_ = may_be_fast();
      return take_step(bytes);
    }
    leave_tape();
    off_tape_ = true;
  }
  return allocate_best_fit(bytes);
}

void* LaneArena::take_step(size_t bytes) {
  if (cursor_.steps_taken() == refused_) return nullptr;
  if (cursor_.next().end > static_cast<uint64_t>(capacity_.count())) return nullptr;
  return poisoned(cursor_.take(), bytes);
}

void* LaneArena::allocate_best_fit(size_t bytes) {
  if (best_fit_.allocations() == refused_) return nullptr;
  const std::optional<uint64_t> offset = best_fit_.allocate(bytes, capacity_);
  return offset ? poisoned(*offset, bytes) : nullptr;
}

std::byte* LaneArena::poisoned(uint64_t offset, size_t bytes) {
  if (poison_ && bytes > 0) std::memset(base_ + offset, *poison_, bytes);
  return base_ + offset;
}

void LaneArena::free_slow(uint64_t offset) {
  if (rest_skipped_) return;
  if (mode_ != Mode::planned) return free_best_fit(offset);
  if (!cursor_.frees_next(offset)) {
    cursor_.add_odd_free(offset);
    fast_ = false;
    return;
  }
  poisoned(offset, cursor_.next_freed_bytes());
  cursor_.take_free();
}

void LaneArena::free_best_fit(uint64_t offset) { poisoned(offset, best_fit_.free(offset)); }

void LaneArena::free_remote(void* memory) { remote_.add(memory); }

void LaneArena::drain_remote() {
  if (!remote_.pending()) return;
  for (void* memory : remote_.take()) free(memory);
}

void LaneArena::leave_tape() {
  mode_ = Mode::best_fit;
  fast_ = false;
  best_fit_.begin_at(cursor_);
  for (const uint64_t offset : cursor_.take_odd_frees()) free_best_fit(offset);
}

LaneArena::Use LaneArena::end() {
  LW_CHECK(mode_ != Mode::idle, "the end of an iteration that was not begun");
  drain_remote();
  if (rest_skipped_) return close_planned();
  if (mode_ == Mode::planned) {
    const bool met = cursor_.is_at_end();
    if (met && cursor_.tape_frees_all()) return close_planned();
    leave_tape();
    off_tape_ = !met;
    Use use = close(off_tape_);
    if (met) use.tape.reset();
    return use;
  }
  return close(off_tape_);
}

LaneArena::Use LaneArena::close_planned() {
  Use use;
  use.peak = cursor_.planned().plan.peak;
  use.allocations = cursor_.planned().tape.allocations.size();
  note_end(use);
  return use;
}

LaneArena::Use LaneArena::abandon() {
  LW_CHECK(mode_ != Mode::idle, "an iteration is abandoned that was not begun");
  drain_remote();
  if (rest_skipped_) return close_planned();
  if (mode_ == Mode::planned) leave_tape();
  Use use = close(false);
  use.tape.reset();
  use.marks.clear();
  return use;
}

LaneArena::Use LaneArena::close(bool off_tape) {
  Use use;
  static_cast<BestFit::Use&>(use) = best_fit_.end();
  use.went_off_tape = off_tape;
  note_end(use);
  return use;
}

void LaneArena::note_end(Use& use) {
  use.skipped = rest_skipped_ || part_skipped_;
  use.went_back = went_back_;
  if (!lost_a_mark_ && !use.skipped && !use.went_back) use.marks = std::move(marks_);
  marks_.clear();
  lost_a_mark_ = false;
  mode_ = Mode::idle;
  fast_ = false;
  rest_skipped_ = false;
  part_skipped_ = false;
  went_back_ = false;
  refused_ = kNoneRefused;
}

LaneArena::Headroom LaneArena::headroom() const {
  if (mode_ == Mode::planned) {
    const Bytes above = std::max(Bytes(0), capacity_ - cursor_.planned().plan.peak);
    return {cursor_.in_order() && plan_fits(), above, above};
  }
  return {false, best_fit_.free_below(capacity_), best_fit_.largest_free_below(capacity_)};
}

}  // namespace laneway::memory
