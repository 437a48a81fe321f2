#include "service/worker/lanes/enqueued_queue.h"

#include <algorithm>
#include <utility>

#include "adaptor/device/limits.h"
#include "base/check.h"

namespace laneway::service {

bool EnqueuedQueue::full() const { return entries_.size() >= limits::kMaxEnqueued; }

void EnqueuedQueue::push(Entry entry) {
  LW_CHECK(!full(), "a lane enqueues only where there is room");
  entries_.push_back(std::move(entry));
}

EnqueuedQueue::Retired EnqueuedQueue::retire_oldest() {
  Retired retired{
      .entry = std::move(entries_.front()), .status = {}, .start = {}, .took = Duration()};
  entries_.pop_front();
  retired.status = retired.entry.enqueued->retire();
  const TimePoint now = clock_.now();
  retired.start = std::max(retired.entry.start, last_retirement_);
  retired.took = now - retired.start;
  last_retirement_ = now;
  return retired;
}

}  // namespace laneway::service
