// Snapshot: a job's image as it was at a boundary, in a piece of the recovery memory. Together with
// the requests since (RedoLog) a successor has the state of a job again whose worker died while
// it was being written. A snapshot that is not whole is none: a worker that dies while it takes one
// leaves a job whose image is whole. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"

namespace laneway::service {

class Snapshot {
 public:
  Snapshot() = default;
  // `memory` is zeros, or what a predecessor left in it.
  explicit Snapshot(std::span<std::byte> memory) : memory_(memory) {}

  // What a snapshot of an image takes.
  static Bytes room_for(Bytes image);

  bool has_memory() const { return memory_.size() > kHeaderBytes; }
  // Where the image's bytes belong.
  std::span<std::byte> bytes() const;

  // The former snapshot is gone; bytes() may be written.
  void begin();
  // bytes() is the image at the boundary before request `number`.
  void end(uint64_t number);
  // The boundary that it was taken at; nothing when it is not whole.
  std::optional<uint64_t> number() const;
  // A request changed the state otherwise than by an iteration: nobody may go on from it.
  void forget();

 private:
  static constexpr size_t kHeaderBytes = 4096;  // the image begins at a page
  struct Header;

  Header& header() const;

  std::span<std::byte> memory_;
};

}  // namespace laneway::service
