// StateMirror: the part of a job's state that is kept on the CPU although the job is on another
// device: the slots that its graphs use on the CPU (adaptor/run/placement.h), in memory laid out
// like the end of the image, where they lie together. For all other readers and writers the image
// is authoritative: slots that an iteration wrote are copied into the image at the iteration's end,
// in the order of the lane's stream, and the mirror reads the image again after another writer
// changed it.
//
// It also counts changes of state that a graph did not make, for checks that otherwise run only
// once. One thread at a time.
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

// Returns `order` with the slots of `last` behind all others.
std::vector<uint32_t> placed_last(std::span<const uint32_t> order, std::span<const uint32_t> last);

class StateMirror {
 public:
  // Requires: `slots` are the last of the layout; `layout` and `access` outlive the mirror.
  StateMirror(const pipeline::ImageLayout& layout, std::span<const uint32_t> slots,
              memory::PoolAccess& access);

  bool has(uint32_t slot) const { return has_[slot]; }
  const BorrowedStorage& storage() const { return storage_; }
  // The offset of a slot within the storage. Requires: has(slot).
  Bytes offset(uint32_t slot) const { return layout_.offset(slot) - begin_; }
  struct Piece {
    Bytes offset;  // within the storage
    Bytes size;
  };
  // The places of `slots`, in as few pieces as possible; no piece holds another slot. Requires: the
  // mirror has these slots.
  std::vector<Piece> pieces_of(std::span<const uint32_t> slots) const;

  // The image lies at `image` from now on (null: it has no place), with other contents.
  void bind(std::byte* image);
  // The image is on its way to where it is bound, and is as `copy`, in the CPU's memory: the
  // mirror's slots come from there. Requires: nothing has written state since bind.
  void take(const std::byte* copy);
  // Must be called after anything but this job's graphs wrote state.
  void state_written();
  // Must be called when a graph writes slots of the mirror on the device.
  void written_on_device() { stale_ = true; }
  // Must be called when a graph's iteration begins. Returns an epoch: it is the same for two
  // iterations of a graph only if no other writer can have changed the state in between.
  uint64_t begin(const void* graph);

  // Reads the mirror's slots from the image, if the image changed; then it waits for the lane.
  Status refresh(DeviceLane& lane);
  // Writes these pieces into the image, in the order of the lane's stream. Other pieces may have
  // been written on the device, so they must not be in `pieces`.
  Status flush(DeviceLane& lane, std::span<const Piece> pieces);

 private:
  const pipeline::ImageLayout& layout_;
  memory::PoolAccess& access_;
  std::vector<bool> has_;
  Bytes begin_;  // where its slots begin in the image
  Bytes size_;
  std::unique_ptr<std::byte[]> bytes_;
  BorrowedStorage storage_;
  std::byte* image_ = nullptr;
  bool stale_ = true;
  uint64_t epoch_ = 1;
  const void* last_graph_ = nullptr;
};

}  // namespace laneway::adaptor
