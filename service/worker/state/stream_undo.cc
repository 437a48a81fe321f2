#include "service/worker/state/stream_undo.h"

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "base/fault_point.h"

namespace laneway::service {

Status save_in_order(UndoLog& log, const SavedImage& image, adaptor::DeviceLane& lane,
                     memory::PoolAccess& pool) {
  const bool waits = lane.is_recording();
  uint64_t end = 0;
  for (const uint32_t slot : image.writes.slots()) {
    const auto offset = static_cast<uint64_t>(image.layout.offset(slot).count());
    const uint64_t bytes = image.layout.slot(slot).bytes;
    if (bytes == 0) continue;
    const std::optional<UndoLog::Room> room = log.lay_out(end, offset, bytes);
    LW_CHECK(room.has_value(), "the log has room for all that the graph writes");
    const Bytes size(static_cast<int64_t>(bytes));
    Status copied = waits ? pool.read(room->bytes.data(), image.base + offset, size)
                          : lane.save(room->bytes.data(), image.base + offset, size);
    if (!copied) return copied;
    end = room->end;
    fault_point("worker.range_enqueued");
  }
  if (waits) {
    log.saved().store(end, std::memory_order_release);
  } else if (Status marked = lane.mark(log.saved(), end); !marked) {
    return marked;
  }
  fault_point("worker.mark_enqueued");
  return {};
}

}  // namespace laneway::service
