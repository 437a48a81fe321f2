// UndoLog: the former bytes of what a request is writing to a job's state, in a piece of the
// recovery memory. The writer saves a range before the first write to it; a successor, or the
// writer itself when the request fails, copies all of them back and has the state of before. One
// store of `saved` makes a range part of the log, so a death between any two instructions leaves
// a log that restores what may have been written by then. Restoring may die and begin again.
//
// One request at a time has the log. Not thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"

namespace laneway::service {

class UndoLog {
 public:
  // A log over no memory saves nothing and is nobody's.
  UndoLog() = default;
  // `memory` is zeros, or what a predecessor left in it. Requires: it has room for an empty log.
  explicit UndoLog(std::span<std::byte> memory) : memory_(memory) {}

  // What a log takes that saves `ranges` ranges of `bytes` bytes together.
  static Bytes room_for(size_t ranges, Bytes bytes);

  // From here on it is the log of that request, and empty. Must be called before the journal says
  // that the request writes. `expected`: about what will be saved. A log that a core's own cache
  // does not hold beside the state is written past the caches (memory/device/streaming_copy.h), so
  // that it pushes out nothing that operators use next.
  void begin(JobId job, uint64_t number, Bytes expected = {});
  // Saves `bytes`, which lie at `offset` in the job's image; must come before the first write to
  // them. False, and nothing is saved, when the log is full.
  bool save(uint64_t offset, std::span<const std::byte> bytes);

  // For whoever copies later, or on a device: a range's place in the log, and where the next one
  // may begin (the first one: 0). Nothing is saved by it; then all of them are, by one store to
  // `saved` of the last one's end, which must come behind the copies and before the first write.
  // Nothing when the log is full.
  struct Room {
    std::span<std::byte> bytes;
    uint64_t end = 0;
  };
  std::optional<Room> lay_out(uint64_t from, uint64_t offset, uint64_t bytes);
  std::atomic<uint64_t>& saved() const;

  // It is nobody's from here on. Must not be called while the journal says that a request writes
  // whose log it is.
  void forget();

  bool is_of(JobId job, uint64_t number) const;
  // Copies back what was saved. False, with a part restored, when the log makes no sense for an
  // image of that size. Requires: is_of the request.
  bool restore(std::span<std::byte> image) const;
  // The same where `write` alone reaches the image, of so many bytes; false from it ends it.
  using Write = std::function<bool(uint64_t offset, std::span<const std::byte> bytes)>;
  bool restore(uint64_t image_bytes, const Write& write) const;
  Bytes room() const { return Bytes(static_cast<int64_t>(memory_.size())); }

 private:
  struct Header;
  struct Range;

  Header& header() const;

  std::span<std::byte> memory_;
  bool streams_ = false;
};

}  // namespace laneway::service
