// StateMirror: what a job on a device that is not the host keeps on the CPU of its state: the slots
// that its graphs use there (adaptor/run/placement.h), in memory laid out like the end of the
// image, where they lie together. The image stays the truth for everybody else: what an iteration
// wrote is copied into it at the iteration's end, in the order of the lane's stream, and read from
// it when somebody else wrote there.
//
// It also says when state changed under a graph, for what is looked at only once otherwise. One
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adaptor/device/device_lane.h"
#include "adaptor/operators/torch_tensors.h"
#include "base/result.h"
#include "memory/pool_access.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

// `order` with the slots of `last` behind all others.
std::vector<uint32_t> placed_last(std::span<const uint32_t> order, std::span<const uint32_t> last);

class StateMirror {
 public:
  // `slots` are the last of the layout; `layout` and `access` outlive the mirror.
  StateMirror(const pipeline::ImageLayout& layout, std::span<const uint32_t> slots,
              memory::PoolAccess& access);

  bool has(uint32_t slot) const { return has_[slot]; }
  const BorrowedStorage& storage() const { return storage_; }
  // Of a slot that it has, within the storage.
  Bytes offset(uint32_t slot) const { return layout_.offset(slot) - begin_; }
  struct Piece {
    Bytes offset;  // within the storage
    Bytes size;
  };
  // Where these slots lie, which it has: as few pieces as none of its other slots lies in.
  std::vector<Piece> pieces_of(std::span<const uint32_t> slots) const;

  // The image lies at `image` from now on (null: nowhere), with other contents.
  void bind(std::byte* image);
  // Somebody but this job's graphs wrote state.
  void state_written();
  // Some graph writes slots that it has on the device.
  void written_on_device() { stale_ = true; }
  // A graph's iteration begins. A number that is the same only while nothing of the state can have
  // changed but by that graph's own iterations.
  uint64_t begin(const void* graph);

  // Reads what it has from the image, if that changed; waits for the lane then.
  Status refresh(DeviceLane& lane);
  // Writes these pieces into the image, in the order of the lane's stream. What a graph has on the
  // device it may have written there.
  Status flush(DeviceLane& lane, std::span<const Piece> pieces);

 private:
  const pipeline::ImageLayout& layout_;
  memory::PoolAccess& access_;
  std::vector<bool> has_;
  Bytes begin_;  // of its slots in the image
  Bytes size_;
  std::unique_ptr<std::byte[]> bytes_;
  BorrowedStorage storage_;
  std::byte* image_ = nullptr;
  bool stale_ = true;
  uint64_t epoch_ = 1;
  const void* last_graph_ = nullptr;
};

}  // namespace laneway::adaptor
