// RedoLog: the iterations of a job since its snapshot, each with a copy of its inputs, so that a
// successor can run them again: the client's own memory may be another by then. In a piece of the
// recovery memory. One store makes an iteration part of the log. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace laneway::service {

// An input as it was: bytes of a tensor, or a number.
struct RedoInput {
  std::span<const std::byte> bytes;  // of no bytes: a number, or an empty tensor
  double real = 0;
  int64_t integer = 0;
};

struct RedoEntry {
  uint64_t number = 0;  // of the request, as the journal counts
  uint32_t graph = 0;
  std::span<const std::byte> random_state;  // before it ran; of no bytes: it does not draw
  std::vector<RedoInput> inputs;
};

class RedoLog {
 public:
  RedoLog() = default;
  // `memory` is zeros, or what a predecessor left in it.
  explicit RedoLog(std::span<std::byte> memory) : memory_(memory) {}

  // What a log of `entries` takes that each need `bytes`, as room_of says.
  static Bytes room_for(size_t entries, Bytes bytes);
  static Bytes room_of(const RedoEntry& entry);

  void clear();
  bool has_room(Bytes entry) const;
  // Copies all that the entry names. Requires: has_room.
  void append(const RedoEntry& entry);
  // Forgets what belongs to that request or a later one: it did not end, and is run again.
  void forget_from(uint64_t number);
  size_t count() const;
  // The entries in their order, whose bytes lie in the log. What makes no sense ends the list; it
  // is as long as count() says otherwise.
  std::vector<RedoEntry> entries() const;
  Bytes used() const;
  Bytes room() const { return Bytes(static_cast<int64_t>(memory_.size())); }

 private:
  struct Header;
  struct Stored;
  struct StoredInput;

  Header& header() const;

  std::span<std::byte> memory_;
};

}  // namespace laneway::service
