// LaneArena: the allocator of one lane's ephemeral memory. It is driven by the one thread that is
// bound to the lane; only free_remote may be called by others. It touches none of the memory
// (except to poison it in tests) and owns none.
//
// An iteration is begun in one of two ways. A probe allocates best fit and records the tape. A
// planned iteration replays a tape: the n-th allocation gets the n-th offset of the plan, for the
// price of two comparisons. That is only safe while the iteration does exactly what the tape says,
// so every allocation is compared with it: same size, and exactly the taped frees before it (their
// order between two allocations is free). At the first difference the arena leaves the tape: it
// rebuilds what is alive and goes on with best fit in the same memory, recording, so that a new
// tape is there at the end.
//
// Not fitting the lane is an expected outcome (nullptr): the iteration is then abandoned and the
// lane grown. Freeing what is not alive, or beginning an iteration inside another, is a bug.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "memory/free_list.h"
#include "memory/planned_tape.h"
#include "memory/tape.h"

namespace laneway::memory {

class LaneArena {
 public:
  // What an iteration used.
  struct Use {
    Bytes peak;                // end of the highest byte that was allocated
    uint64_t allocations = 0;  // of this iteration
    Bytes live_bytes;          // still alive, as asked for; memory of earlier iterations included
    uint64_t live_count = 0;
    uint64_t older_count = 0;            // of live_count: of earlier iterations
    bool went_off_tape = false;          // planned, but did something else than its tape
    bool skipped = false;                // some of it, see skip_rest and skip_to
    std::optional<AllocationTape> tape;  // of a probe, and of an iteration that left its tape
    std::vector<TapePosition> marks;     // of a probe: where its tape stood at each mark()
  };
  // Memory that is alive between iterations.
  struct Block {
    std::byte* memory = nullptr;
    size_t bytes = 0;
  };
  // What further allocations may count on.
  struct Headroom {
    bool plan_covers_rest = false;  // on the tape, and the whole plan lies within the lane
    Bytes free;                     // best fit: all free bytes; planned: those above the plan
    Bytes largest;                  // best fit: longest free piece; planned: those above the plan
  };

  // `alignment`: of every address, a power of two. `poison`: what fresh and freed bytes are filled
  // with, if at all (tests; planned iterations are then as slow as others).
  explicit LaneArena(int64_t alignment, std::optional<unsigned char> poison = std::nullopt);
  LaneArena(const LaneArena&) = delete;
  LaneArena& operator=(const LaneArena&) = delete;

  static constexpr unsigned char kPoison = 0xCD;
  // What the environment asks for: LANEWAY_POISON=1 is kPoison, 0x00 to 0xFF that byte, anything
  // else none.
  static std::optional<unsigned char> poison_asked_for();

  // Sets the lane's memory, aligned to the alignment; it must outlive its use. Only between
  // iterations, with nothing alive.
  void bind(std::byte* base, Bytes capacity);

  // Takes a block in that somebody still uses (an arena gave it up), as memory of an earlier
  // iteration, if it begins within the lane: iterations get nothing over it. False when it does
  // not. Only between iterations.
  bool adopt(std::byte* memory, size_t bytes);
  // Forgets what is alive, and says what that was. Only between iterations.
  std::vector<Block> give_up();

  void begin_probe();
  // `planned` has this arena's alignment. Should memory of an earlier iteration be alive, the
  // iteration starts off its tape.
  void begin_planned(std::shared_ptr<const PlannedTape> planned);

  // The rest of a planned iteration follows its tape without asking: work that was recorded with
  // the plan's addresses runs again. Nothing is allocated any more; what is freed belongs to the
  // tape, and need not be. end() answers as for a tape that was followed.
  void skip_rest();
  // The same for a part of it: the iteration stands at `position` of its tape, and what is alive
  // there may be freed as if it had been allocated. `position` is one that this plan's iterations
  // pass. What is alive now stays so: nothing but what the part itself allocates may be different.
  void skip_to(const TapePosition& position);
  // Where a planned iteration stands on its tape, frees of other threads that have arrived
  // included; none off the tape, and where frees came in another order than the tape's.
  std::optional<TapePosition> position();
  // What a planned iteration follows; null in others and off the tape.
  std::shared_ptr<const PlannedTape> followed() const {
    return mode_ == Mode::planned ? planned_ : nullptr;
  }
  std::byte* base() const { return base_; }

  // Notes where the tape of a probe stands now, frees of other threads that have arrived included.
  // Only in a probe.
  void mark();

  // For tests: the `index`-th allocation (from 0) of the next iteration does not fit, whatever room
  // there is. Between iterations; holds for one.
  void refuse_at(uint64_t index);

  // Memory for `bytes` bytes (0 gives an address of its own too), or nullptr when it does not fit
  // the lane; the iteration can then free, and should be abandoned.
  void* allocate(size_t bytes);
  // `memory` is from allocate and alive. Also between iterations, for what outlived its own.
  void free(void* memory);
  // The same from any other thread; takes effect at the next allocate, end or abandon.
  void free_remote(void* memory);

  bool contains(const void* memory) const {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const auto base = reinterpret_cast<uintptr_t>(base_);
    return address - base < static_cast<uintptr_t>(capacity_.count());
  }

  // Ends the iteration. What is still alive stays valid until freed.
  Use end();
  // Ends an iteration that is given up, and drops what was recorded: the Use has no tape and is
  // never off it. The caller looks at live_count, which should be 0.
  Use abandon();

  Headroom headroom() const;
  bool in_iteration() const { return mode_ != Mode::idle; }
  Bytes capacity() const { return capacity_; }
  int64_t alignment() const { return alignment_; }

 private:
  enum class Mode : uint8_t { idle, best_fit, planned };
  struct Live {
    uint64_t bytes = 0;
    uint32_t index = 0;  // in the tape being recorded; kOlder: of an earlier iteration
  };
  static constexpr uint32_t kOlder = UINT32_MAX;
  static constexpr uint64_t kNoneRefused = UINT64_MAX;

  void* allocate_slow(size_t bytes);
  void* allocate_best_fit(size_t bytes);
  void* take_step(size_t bytes);  // the next planned offset, if it is the one asked for
  void free_slow(uint64_t offset);
  void free_best_fit(uint64_t offset);
  void drain_remote();
  void start_best_fit();
  // The fast way is open to a planned iteration that may take it at all.
  bool may_be_fast() const {
    return !poison_ && refused_ == kNoneRefused && planned_->plan.peak <= capacity_;
  }
  // Whether the frees so far are the tape's first `frees`; then the log is empty afterwards.
  bool reconcile(size_t frees);
  // From planned to best fit: rebuilds what is alive and the tape so far.
  void leave_tape();
  Use close(bool off_tape);
  // The end of an iteration that did what its tape says.
  Use close_planned();
  size_t steps_taken() const { return static_cast<size_t>(step_ - planned_->steps.data()); }

  // Read at every allocation and free.
  std::byte* base_ = nullptr;
  const PlannedTape::Step* step_ = nullptr;  // the next planned allocation
  const uint64_t* free_offsets_ = nullptr;   // of the taped frees
  uint32_t freed_ = 0;                       // taped frees that happened, in taped order
  // Planned, nothing logged, plan within the lane, no poison: else the slow way decides.
  bool fast_ = false;
  std::atomic<bool> remote_pending_{false};

  Mode mode_ = Mode::idle;
  const int64_t alignment_;
  const std::optional<unsigned char> poison_;
  Bytes capacity_;

  std::shared_ptr<const PlannedTape> planned_;
  std::vector<uint64_t> odd_frees_;  // offsets freed out of the taped order since it was last met

  FreeList space_;  // unbounded: the lane's end is checked apart
  std::unordered_map<uint64_t, Live> live_;
  AllocationTape tape_;  // being recorded
  std::vector<TapePosition> marks_;
  Bytes peak_;
  bool off_tape_ = false;
  bool rest_skipped_ = false;        // see skip_rest
  bool part_skipped_ = false;        // see skip_to
  uint64_t refused_ = kNoneRefused;  // see refuse_at

  Mutex remote_mutex_;
  std::vector<void*> remote_frees_ LW_GUARDED_BY(remote_mutex_);
};

inline void* LaneArena::allocate(size_t bytes) {
  if (fast_ && step_->bytes == bytes && step_->frees_before == freed_ &&
      !remote_pending_.load(std::memory_order_relaxed)) [[likely]] {
    return base_ + (step_++)->offset;
  }
  return allocate_slow(bytes);
}

inline void LaneArena::free(void* memory) {
  const auto offset = static_cast<uint64_t>(static_cast<std::byte*>(memory) - base_);
  if (fast_ && offset == free_offsets_[freed_]) [[likely]] {
    ++freed_;
    return;
  }
  free_slow(offset);
}

}  // namespace laneway::memory
