#include "service/worker/state/undo_runner.h"

#include "base/check.h"
#include "base/fault_point.h"

namespace laneway::service {

lanes::NodeOutcome UndoRunner::run_node(size_t index) {
  if (log_ != nullptr) {
    if (const auto slots = writes_.first_written_by(index); !slots.empty()) save(slots);
  }
  fault_point("worker.node");
  return ForwardingRunner::run_node(index);
}

void UndoRunner::save(std::span<const uint32_t> slots) {
  const TimePoint start = clock_ != nullptr ? clock_->now() : TimePoint();
  for (const uint32_t slot : slots) {
    const auto offset = static_cast<uint64_t>(layout_.offset(slot).count());
    const bool saved = log_->save(offset, {image_ + offset, layout_.slot(slot).bytes});
    LW_CHECK(saved, "the log has room for all that the graph writes");
  }
  if (clock_ != nullptr) took_ += clock_->now() - start;
}

}  // namespace laneway::service
