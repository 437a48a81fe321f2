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
// tape is there at the end. It owns a class for each: TapeCursor follows, BestFit places and
// records, RemoteFrees keeps what other threads free.
//
// An allocation that does not fit the lane is an expected outcome (nullptr): the caller then
// abandons the iteration and the lane grows. To free memory that is not alive, or to begin an
// iteration inside another, is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "memory/best_fit.h"
#include "memory/planned_tape.h"
#include "memory/remote_frees.h"
#include "memory/tape.h"
#include "memory/tape_cursor.h"

namespace laneway::memory {

class LaneArena {
 public:
  // The memory that an iteration used. The tape is set for a probe, and for an iteration that left
  // its tape.
  struct Use : BestFit::Use {
    // The position of the iteration's tape, or of the tape that it followed, at each mark(); empty
    // when one of them is not known.
    std::vector<TapePosition> marks;
    bool went_off_tape = false;  // a planned iteration differed from its tape
    bool skipped = false;        // skip_rest or skip_to was called
    bool went_back = false;      // go_back was called
  };
  // Memory that is alive between iterations.
  struct Block {
    std::byte* memory = nullptr;
    size_t bytes = 0;
  };
  // The room that further allocations have.
  struct Headroom {
    bool plan_covers_rest = false;  // on the tape, and the whole plan lies within the lane
    Bytes free;                     // best fit: all free bytes; planned: those above the plan
    Bytes largest;                  // best fit: longest free piece; planned: those above the plan
  };

  // Every address is a multiple of `alignment`. Fresh and freed bytes are filled with `poison`, if
  // it is set (for tests; planned iterations are then as slow as others). Requires: `alignment` is
  // a power of two.
  explicit LaneArena(int64_t alignment, std::optional<unsigned char> poison = std::nullopt);
  LaneArena(const LaneArena&) = delete;
  LaneArena& operator=(const LaneArena&) = delete;

  static constexpr unsigned char kPoison = 0xCD;
  // The poison that the environment variable LANEWAY_POISON selects: 1 is kPoison, 0x00 to 0xFF is
  // that byte, any other text is none.
  static std::optional<unsigned char> poison_asked_for();

  // Sets the lane's memory, which must outlive its use. Requires: `base` is aligned, no iteration
  // runs, nothing is alive.
  void bind(std::byte* base, Bytes capacity);

  // Adopts a block that is still in use and that another arena gave up. The block counts as memory
  // of an earlier iteration: no iteration gets memory over it. Returns false when the block does
  // not begin within the lane. Requires: no iteration runs.
  bool adopt(std::byte* memory, size_t bytes);
  // Forgets all live blocks and returns them. Requires: no iteration runs.
  std::vector<Block> give_up();

  void begin_probe();
  // Requires: `planned` has this arena's alignment. If memory of an earlier iteration is alive, the
  // iteration starts off its tape.
  void begin_planned(std::shared_ptr<const PlannedTape> planned);

  // The rest of a planned iteration follows its tape without calls to the arena: recorded work with
  // the plan's addresses runs again. After this call the caller must not allocate. It may free
  // blocks of the tape, but need not. end() answers as for an iteration that followed its tape.
  void skip_rest();
  // The same for a part of the iteration: afterwards the iteration stands at `position` of its
  // tape, and a block that is alive there may be freed as if it had been allocated. Blocks that are
  // alive now stay alive. Requires: this plan's iterations pass `position`, and the skipped part
  // frees no block that is alive now.
  void skip_to(const TapePosition& position);
  // For an iteration that runs again from `position` on, after a part that came to nothing: it
  // follows its tape again from there, wherever it stood and though it had left the tape. Returns
  // false, and the iteration is off its tape, when what is alive is not what the tape has alive at
  // `position`. A refusal (refuse_at) does not hold for the second run. Requires: this iteration
  // was at `position` of its tape, and nothing was skipped.
  bool go_back(const TapePosition& position);
  // The position of a planned iteration on its tape, frees of other threads that have arrived
  // included. None off the tape, and none where frees came in another order than the tape's.
  std::optional<TapePosition> position();
  // The tape that a planned iteration follows; null in other iterations and off the tape.
  std::shared_ptr<const PlannedTape> followed() const {
    return mode_ == Mode::planned ? cursor_.shared() : nullptr;
  }
  std::byte* base() const { return base_; }

  // Notes the present position of the iteration's tape, frees of other threads that have arrived
  // included. It is not known where frees came in another order than the tape's, and in an
  // iteration that skips a part or goes back. Requires: an iteration runs.
  void mark();

  // For tests: the `index`-th allocation (from 0) of the next iteration does not fit, however much
  // room there is. Holds for one iteration. Requires: no iteration runs.
  void refuse_at(uint64_t index);

  // Returns memory for `bytes` bytes (0 gives an address of its own too), or nullptr when it does
  // not fit the lane. After nullptr the iteration can still free, and the caller should abandon it.
  void* allocate(size_t bytes);
  // Requires: `memory` came from allocate and is alive. May also be called between iterations, for
  // memory that outlived its iteration.
  void free(void* memory);
  // The same, for any other thread. Takes effect at the next allocate, end or abandon.
  void free_remote(void* memory);

  bool contains(const void* memory) const {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const auto base = reinterpret_cast<uintptr_t>(base_);
    return address - base < static_cast<uintptr_t>(capacity_.count());
  }

  // Ends the iteration. Memory that is still alive stays valid until it is freed.
  Use end();
  // Ends an iteration that is abandoned, and drops its recorded tape: the Use has no tape, and its
  // went_off_tape is false. The caller must check live_count, which should be 0.
  Use abandon();

  Headroom headroom() const;
  bool in_iteration() const { return mode_ != Mode::idle; }
  Bytes capacity() const { return capacity_; }
  int64_t alignment() const { return alignment_; }

 private:
  enum class Mode : uint8_t { idle, best_fit, planned };
  static constexpr uint64_t kNoneRefused = UINT64_MAX;

  void* allocate_slow(size_t bytes);
  void* allocate_best_fit(size_t bytes);
  void* take_step(size_t bytes);  // the next planned offset
  // The place of `bytes` bytes, filled with the poison if there is one.
  std::byte* poisoned(uint64_t offset, size_t bytes);
  void free_slow(uint64_t offset);
  void free_best_fit(uint64_t offset);
  void drain_remote();
  void start_best_fit();
  uint64_t offset_of(const void* memory) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(memory) - base_);
  }
  bool plan_fits() const { return cursor_.planned().plan.peak <= capacity_; }
  // Whether a planned iteration may take the fast path at all.
  bool may_be_fast() const { return !poison_ && refused_ == kNoneRefused && plan_fits(); }
  // Switches from planned to best fit: rebuilds the set of live blocks and the tape so far.
  void leave_tape();
  Use close(bool off_tape);
  // Ends an iteration that followed its tape.
  Use close_planned();
  // The arena is idle afterwards, and `use` says what happened in the iteration.
  void note_end(Use& use);

  // These are read at every allocation and free.
  std::byte* base_ = nullptr;
  TapeCursor cursor_;
  // True when the iteration is planned, its frees are in order, the plan fits the lane and there is
  // no poison; otherwise the slow path decides.
  bool fast_ = false;
  RemoteFrees remote_;

  Mode mode_ = Mode::idle;
  const int64_t alignment_;
  const std::optional<unsigned char> poison_;
  Bytes capacity_;

  BestFit best_fit_;
  bool off_tape_ = false;
  std::vector<TapePosition> marks_;
  bool lost_a_mark_ = false;         // one is not known
  bool rest_skipped_ = false;        // see skip_rest
  bool part_skipped_ = false;        // see skip_to
  bool went_back_ = false;           // see go_back
  uint64_t refused_ = kNoneRefused;  // see refuse_at
};

inline void* LaneArena::allocate(size_t bytes) {
  if (fast_ && cursor_.is_next(bytes) && !remote_.pending()) [[likely]] {
    return base_ + cursor_.take();
  }
  return allocate_slow(bytes);
}

inline void LaneArena::free(void* memory) {
  const uint64_t offset = offset_of(memory);
  if (fast_ && cursor_.frees_next(offset)) [[likely]] {
    cursor_.take_free();
    return;
  }
  free_slow(offset);
}

}  // namespace laneway::memory
