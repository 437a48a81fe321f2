// Undo where the CPU does not reach images: all that an iteration will overwrite is copied into its
// lane's log in the order of the lane's work, before the first node that writes, and then a mark is
// written there by the same order. What the CPU has enqueued when it dies says nothing: where the
// mark is, the copies are whole and something may have been written; where it is not, nothing was.
#pragma once

#include <cstddef>

#include "adaptor/device/device_lane.h"
#include "base/result.h"
#include "memory/pool_access.h"
#include "pipeline/image.h"
#include "service/journal/undo_log.h"
#include "service/worker/run/write_set.h"

namespace laneway::service {

struct SavedImage {
  const std::byte* base = nullptr;  // in the pool
  const pipeline::ImageLayout& layout;
  const WriteSet& writes;
};

// `log` has begun, and has room for all that is written. Requires: whatever ran before in the lane
// has retired, but for the nodes of this iteration. While a lane records, none of them has run; the
// CPU then copies by `pool` and waits. device_lost.
Status save_in_order(UndoLog& log, const SavedImage& image, adaptor::DeviceLane& lane,
                     memory::PoolAccess& pool);

}  // namespace laneway::service
