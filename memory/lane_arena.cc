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
    : alignment_(alignment), poison_(poison), space_(kUnboundedLane, alignment) {}

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
  LW_CHECK(live_.empty(), "a lane is bound while " + std::to_string(live_.size()) +
                              " of its allocations are alive");
  LW_CHECK(reinterpret_cast<uintptr_t>(base) % static_cast<uintptr_t>(alignment_) == 0,
           "a lane's memory is not aligned to " + std::to_string(alignment_));
  LW_CHECK(capacity >= Bytes(0));
  base_ = base;
  capacity_ = capacity;
}

bool LaneArena::adopt(std::byte* memory, size_t bytes) {
  LW_CHECK(mode_ == Mode::idle, "a lane adopts memory inside an iteration");
  if (!contains(memory)) return false;
  if (live_.empty()) space_ = FreeList(kUnboundedLane, alignment_);
  const Bytes offset(memory - base_);
  if (!space_.allocate_at(offset, padded_size(bytes, alignment_))) return false;
  live_.emplace(offset.count(), Live{bytes, kOlder});
  return true;
}

std::vector<LaneArena::Block> LaneArena::give_up() {
  LW_CHECK(mode_ == Mode::idle, "a lane gives memory up inside an iteration");
  drain_remote();
  std::vector<Block> blocks;
  for (const auto& [offset, live] : live_) blocks.push_back({base_ + offset, live.bytes});
  live_.clear();
  return blocks;
}

void LaneArena::start_best_fit() {
  mode_ = Mode::best_fit;
  fast_ = false;
  tape_ = {};
  marks_.clear();
  peak_ = Bytes(0);
  if (live_.empty()) space_ = FreeList(kUnboundedLane, alignment_);
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
  off_tape_ = !live_.empty();
  if (off_tape_) return start_best_fit();
  mode_ = Mode::planned;
  planned_ = std::move(planned);
  step_ = planned_->steps.data();
  free_offsets_ = planned_->free_offsets.data();
  freed_ = 0;
  odd_frees_.clear();
  fast_ = may_be_fast();
}

void LaneArena::skip_rest() {
  LW_CHECK(mode_ == Mode::planned, "the rest of an iteration is skipped off its plan");
  LW_CHECK(planned_->plan.peak <= capacity_ &&
               planned_->tape.frees.size() == planned_->tape.allocations.size(),
           "what is skipped lies within the lane and leaves nothing there");
  rest_skipped_ = true;
  fast_ = false;
}

void LaneArena::skip_to(const TapePosition& position) {
  LW_CHECK(mode_ == Mode::planned && odd_frees_.empty(),
           "a part of an iteration is skipped off its plan");
  LW_CHECK(planned_->plan.peak <= capacity_ && position.allocations >= steps_taken() &&
               position.allocations <= planned_->tape.allocations.size() &&
               position.frees >= freed_ && position.frees <= planned_->tape.frees.size(),
           "what is skipped lies ahead, within the lane");
  step_ = planned_->steps.data() + position.allocations;
  freed_ = position.frees;
  part_skipped_ = true;
}

bool LaneArena::go_back(const TapePosition& position) {
  LW_CHECK(mode_ != Mode::idle && planned_ != nullptr && !rest_skipped_ && !part_skipped_,
           "an iteration goes back that followed no plan");
  if (remote_pending_.load(std::memory_order_acquire)) drain_remote();
  refused_ = kNoneRefused;
  went_back_ = true;
  if (mode_ == Mode::planned) leave_tape();
  off_tape_ = !is_alive_as_at(position);
  if (off_tape_) return false;
  live_.clear();
  mode_ = Mode::planned;
  step_ = planned_->steps.data() + position.allocations;
  freed_ = position.frees;
  fast_ = may_be_fast();
  return true;
}

bool LaneArena::is_alive_as_at(const TapePosition& position) const {
  const std::vector<uint32_t>& frees = planned_->tape.frees;
  std::vector<bool> freed(position.allocations, false);
  for (uint32_t i = 0; i < position.frees; ++i) freed[frees[i]] = true;
  size_t alive = 0;
  for (uint32_t i = 0; i < position.allocations; ++i) {
    if (freed[i]) continue;
    const auto found = live_.find(planned_->steps[i].offset);
    if (found == live_.end() || found->second.index != i) return false;
    ++alive;
  }
  return alive == live_.size();
}

std::optional<TapePosition> LaneArena::position() {
  if (remote_pending_.load(std::memory_order_acquire)) drain_remote();
  if (mode_ != Mode::planned || !odd_frees_.empty()) return std::nullopt;
  return TapePosition{static_cast<uint32_t>(steps_taken()), freed_};
}

void LaneArena::mark() {
  LW_CHECK(mode_ == Mode::best_fit && !off_tape_, "a mark outside a probe");
  if (remote_pending_.load(std::memory_order_acquire)) drain_remote();
  marks_.push_back(
      {static_cast<uint32_t>(tape_.allocations.size()), static_cast<uint32_t>(tape_.frees.size())});
}

void LaneArena::refuse_at(uint64_t index) {
  LW_CHECK(mode_ == Mode::idle, "a refusal is set inside an iteration");
  refused_ = index;
}

void* LaneArena::allocate_slow(size_t bytes) {
  LW_CHECK(mode_ != Mode::idle, "an allocation outside an iteration");
  LW_CHECK(!rest_skipped_, "an allocation behind what was skipped");
  if (remote_pending_.load(std::memory_order_acquire)) drain_remote();
  if (mode_ == Mode::planned) {
    if (step_->bytes == bytes && reconcile(step_->frees_before)) return take_step(bytes);
    leave_tape();
    off_tape_ = true;
  }
  return allocate_best_fit(bytes);
}

void* LaneArena::take_step(size_t bytes) {
  if (steps_taken() == refused_) return nullptr;
  if (step_->end > static_cast<uint64_t>(capacity_.count())) return nullptr;
  std::byte* memory = base_ + (step_++)->offset;
  if (poison_ && bytes > 0) std::memset(memory, *poison_, bytes);
  return memory;
}

void* LaneArena::allocate_best_fit(size_t bytes) {
  if (tape_.allocations.size() == refused_) return nullptr;
  if (bytes > static_cast<uint64_t>(capacity_.count())) return nullptr;
  const Bytes size = padded_size(bytes, alignment_);
  const std::optional<Bytes> offset = space_.allocate(size);
  if (!offset) return nullptr;
  if (*offset + size > capacity_) {
    space_.free(*offset);
    return nullptr;
  }
  const auto index = static_cast<uint32_t>(tape_.allocations.size());
  live_.emplace(offset->count(), Live{bytes, index});
  tape_.allocations.push_back({bytes, static_cast<uint32_t>(tape_.frees.size())});
  peak_ = std::max(peak_, *offset + size);
  std::byte* memory = base_ + offset->count();
  if (poison_ && bytes > 0) std::memset(memory, *poison_, bytes);
  return memory;
}

void LaneArena::free_slow(uint64_t offset) {
  if (rest_skipped_) return;
  if (mode_ != Mode::planned) return free_best_fit(offset);
  if (offset == free_offsets_[freed_]) {
    if (poison_) {
      const uint32_t index = planned_->tape.frees[freed_];
      std::memset(base_ + offset, *poison_, planned_->tape.allocations[index].bytes);
    }
    ++freed_;
    return;
  }
  odd_frees_.push_back(offset);
  fast_ = false;
}

void LaneArena::free_best_fit(uint64_t offset) {
  const auto entry = live_.find(offset);
  LW_CHECK(entry != live_.end(),
           "free of offset " + std::to_string(offset) + " of a lane, where nothing is alive");
  if (poison_) std::memset(base_ + offset, *poison_, entry->second.bytes);
  if (entry->second.index != kOlder) tape_.frees.push_back(entry->second.index);
  live_.erase(entry);
  space_.free(Bytes(static_cast<int64_t>(offset)));
}

void LaneArena::free_remote(void* memory) {
  const MutexLock lock(remote_mutex_);
  remote_frees_.push_back(memory);
  remote_pending_.store(true, std::memory_order_release);
}

void LaneArena::drain_remote() {
  std::vector<void*> frees;
  {
    const MutexLock lock(remote_mutex_);
    frees.swap(remote_frees_);
    remote_pending_.store(false, std::memory_order_relaxed);
  }
  for (void* memory : frees) free(memory);
}

bool LaneArena::reconcile(size_t frees) {
  if (frees < freed_ || frees - freed_ != odd_frees_.size()) return false;
  if (!odd_frees_.empty()) {  // the same ones in another order?
    std::vector<uint64_t> wanted(free_offsets_ + freed_, free_offsets_ + frees);
    std::sort(wanted.begin(), wanted.end());
    std::vector<uint64_t> seen = odd_frees_;
    std::sort(seen.begin(), seen.end());
    if (wanted != seen) return false;
    odd_frees_.clear();
    freed_ = static_cast<uint32_t>(frees);
  }
  fast_ = may_be_fast();
  return true;
}

void LaneArena::leave_tape() {
  const AllocationTape& taped = planned_->tape;
  const auto taken = static_cast<ptrdiff_t>(steps_taken());
  start_best_fit();
  tape_.allocations.assign(taped.allocations.begin(), taped.allocations.begin() + taken);
  tape_.frees.assign(taped.frees.begin(), taped.frees.begin() + freed_);
  std::vector<bool> freed(static_cast<size_t>(taken), false);
  for (const uint32_t index : tape_.frees) {
    LW_CHECK(index < freed.size(), "a lane's allocation was freed before it was made");
    freed[index] = true;
  }
  for (uint32_t i = 0; i < freed.size(); ++i) {
    const PlannedTape::Step& step = planned_->steps[i];
    peak_ = std::max(peak_, Bytes(static_cast<int64_t>(step.end)));
    if (freed[i]) continue;
    live_.emplace(step.offset, Live{step.bytes, i});
    const bool placed = space_.allocate_at(Bytes(static_cast<int64_t>(step.offset)),
                                           padded_size(step.bytes, alignment_));
    LW_CHECK(placed, "two planned allocations overlap");
  }
  for (const uint64_t offset : std::exchange(odd_frees_, {})) free_best_fit(offset);
}

LaneArena::Use LaneArena::end() {
  LW_CHECK(mode_ != Mode::idle, "the end of an iteration that was not begun");
  drain_remote();
  if (rest_skipped_) return close_planned();
  if (mode_ == Mode::planned) {
    const AllocationTape& taped = planned_->tape;
    const bool met = steps_taken() == taped.allocations.size() && reconcile(taped.frees.size());
    if (met && taped.frees.size() == taped.allocations.size()) return close_planned();
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
  use.peak = planned_->plan.peak;
  use.allocations = planned_->tape.allocations.size();
  use.skipped = rest_skipped_ || part_skipped_;
  use.went_back = std::exchange(went_back_, false);
  mode_ = Mode::idle;
  fast_ = false;
  rest_skipped_ = false;
  part_skipped_ = false;
  refused_ = kNoneRefused;
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
  mode_ = Mode::idle;
  refused_ = kNoneRefused;
  Use use;
  use.skipped = std::exchange(part_skipped_, false);
  use.went_back = std::exchange(went_back_, false);
  use.peak = peak_;
  use.allocations = tape_.allocations.size();
  use.live_count = live_.size();
  use.went_off_tape = off_tape;
  for (auto& [offset, live] : live_) {
    use.live_bytes += Bytes(static_cast<int64_t>(live.bytes));
    use.older_count += live.index == kOlder ? 1 : 0;
    live.index = kOlder;
  }
  use.tape = std::exchange(tape_, {});
  use.marks = std::exchange(marks_, {});
  return use;
}

LaneArena::Headroom LaneArena::headroom() const {
  if (mode_ == Mode::planned) {
    const Bytes above = std::max(Bytes(0), capacity_ - planned_->plan.peak);
    return {odd_frees_.empty() && planned_->plan.peak <= capacity_, above, above};
  }
  if (live_.empty()) return {false, capacity_, capacity_};
  return {false, capacity_ - space_.taken_bytes(), space_.largest_free_below(capacity_)};
}

}  // namespace laneway::memory
