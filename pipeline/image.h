// ImageLayout: where each slot of a job's image lies. An image is the job's persistent bytes laid
// out contiguously in order of first use (PipeSwitch, Bai et al., OSDI 2020, section 4.1: copies
// then follow the order in which compute needs them). Offsets are relative to the image, so an
// image can be placed, moved and restored anywhere. Immutable once made; thread-safe to read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::pipeline {

class ImageLayout {
 public:
  ImageLayout() = default;
  // `first_use` names slots in the order in which they are needed; slots that it does not name
  // follow in their own order. Each slot starts at a multiple of `alignment`.
  ImageLayout(std::span<const lanes::ImageSlot> slots, std::span<const uint32_t> first_use,
              int64_t alignment);

  int64_t alignment() const { return alignment_; }
  Bytes total() const { return total_; }
  size_t slot_count() const { return offsets_.size(); }
  Bytes offset(uint32_t slot) const { return offsets_.at(slot); }
  const lanes::ImageSlot& slot(uint32_t index) const { return slots_.at(index); }
  std::span<const lanes::ImageSlot> slots() const { return slots_; }
  // All slots, in the order in which they lie.
  std::span<const uint32_t> by_offset() const { return by_offset_; }

 private:
  void place(uint32_t slot);

  std::vector<lanes::ImageSlot> slots_;
  std::vector<Bytes> offsets_;
  std::vector<uint32_t> by_offset_;
  Bytes total_;
  int64_t alignment_ = 1;
};

}  // namespace laneway::pipeline
