// RecoveryMemory: memory of the supervisor's in which a worker keeps what its successor needs
// beside the journal: bytes of job states, inputs, plans. It lies outside of the pool, and outlives
// workers and brokers. It is handed out in pieces under keys, and all pages of a piece are present
// before its first use, so that a machine without memory refuses a piece and never ends the worker
// by SIGBUS. What is released is given back to the machine, and reads as zeros for the next owner.
//
// A process killed between any two stores leaves each key with its former piece, the new one, or
// none. Written by the active worker alone. Thread-safe; the bytes of a piece belong to its owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/result.h"

namespace laneway::service {

// What a piece is for. Numbered as in the memory.
enum class PieceKind : uint32_t {
  undo_log = 1,   // of a lane
  snapshot = 2,   // of a job
  redo_log = 3,   // of a job
  plan = 4,       // of a job; the number is the graph's
  write_log = 5,  // of a job: the undo log of a state write
};

struct PieceKey {
  PieceKind kind = PieceKind::undo_log;
  uint64_t owner = 0;   // lane or job
  uint32_t number = 0;  // among the owner's pieces of that kind
  friend auto operator<=>(const PieceKey&, const PieceKey&) = default;
};

class RecoveryMemory {
 public:
  // The directory of the pieces takes this much of the memory.
  static constexpr uint32_t kMaxPieces = 1u << 14;
  static constexpr Bytes kSmallest = mib(2);

  // Maps `size` bytes of `descriptor`, which stays the caller's; writes nothing. invalid_argument
  // when it cannot be one: it has another size, or fewer than kSmallest bytes.
  static Result<std::unique_ptr<RecoveryMemory>> map(int descriptor, Bytes size);
  // Takes over the pieces of a predecessor, which is dead; fresh bytes (zeros) become a memory
  // without pieces. Pieces that it had begun and not published, and what makes no sense, are
  // released. invalid_argument when the memory is of another version. Must be called once, before
  // everything below. `shown`, which must outlive the memory, has used() from then on, for those
  // who look from other processes; null: nobody looks.
  Status take_over(std::atomic<uint64_t>* shown = nullptr) LW_EXCLUDES(mutex_);
  ~RecoveryMemory();
  RecoveryMemory(const RecoveryMemory&) = delete;
  RecoveryMemory& operator=(const RecoveryMemory&) = delete;

  // Room for `size` bytes, zeros, at a page's beginning; find does not know it before publish.
  // out_of_memory, with the limit, when there is none. Requires: no other piece of that key waits
  // to be published.
  Result<std::span<std::byte>> make(PieceKey key, Bytes size) LW_EXCLUDES(mutex_);
  // What make gave for the key is the key's piece from now on; the former one is released.
  void publish(PieceKey key) LW_EXCLUDES(mutex_);
  // What make gave for the key goes back; nothing when it was published, or never made.
  void discard(PieceKey key) LW_EXCLUDES(mutex_);
  // make and publish.
  Result<std::span<std::byte>> add(PieceKey key, Bytes size) LW_EXCLUDES(mutex_);
  // The key's piece, in full pages; of no bytes when it has none.
  std::span<std::byte> find(PieceKey key) const LW_EXCLUDES(mutex_);
  // Nothing when there is none.
  void release(PieceKey key) LW_EXCLUDES(mutex_);
  // All pieces of that kind and owner.
  void release_all(PieceKind kind, uint64_t owner) LW_EXCLUDES(mutex_);
  // The keys that have a piece, in order.
  std::vector<PieceKey> keys() const LW_EXCLUDES(mutex_);

  // Of the pieces and the directory; never above size().
  Bytes used() const LW_EXCLUDES(mutex_);
  Bytes size() const { return size_; }

 private:
  struct Memory;
  struct Entry;
  struct Place {
    uint32_t entry = 0;
    Bytes offset;
    Bytes size;
  };

  RecoveryMemory(int descriptor, std::byte* base, Bytes size)
      : descriptor_(descriptor), base_(base), size_(size) {}
  Memory& memory() const;
  Entry& entry(const Place& place) const;
  void take_entry(uint32_t index) LW_REQUIRES(mutex_);
  // What lies between the pieces goes back to the machine.
  void clear_gaps() LW_REQUIRES(mutex_);
  std::span<std::byte> bytes(const Place& place) const;
  std::optional<uint32_t> free_entry() const;
  std::optional<Bytes> free_offset(Bytes size) const LW_REQUIRES(mutex_);
  Error no_room(Bytes size) const LW_REQUIRES(mutex_);
  Status make_present(Bytes offset, Bytes size) const;
  Result<Place> begin(PieceKey key, Bytes size) LW_REQUIRES(mutex_);
  void finish(PieceKey key) LW_REQUIRES(mutex_);
  Bytes taken() const LW_REQUIRES(mutex_);
  // Must be called when that has changed.
  void show_taken() LW_REQUIRES(mutex_);
  // The pages go back to the machine, then the entry is free.
  void drop(const Place& place) LW_REQUIRES(mutex_);

  const int descriptor_;
  std::byte* const base_;
  const Bytes size_;
  mutable Mutex mutex_;
  std::map<PieceKey, Place> pieces_ LW_GUARDED_BY(mutex_);
  std::map<PieceKey, Place> unpublished_ LW_GUARDED_BY(mutex_);
  std::map<Bytes, Bytes> taken_ LW_GUARDED_BY(mutex_);  // size by offset
  std::atomic<uint64_t>* shown_ LW_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace laneway::service
