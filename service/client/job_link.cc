#include "service/client/job_link.h"

#include <utility>

namespace laneway::service {

Segment::~Segment() { link_->unused(number_); }

Result<std::shared_ptr<Segment>> JobLink::make_segment(uint64_t bytes) {
  drop_unused();
  auto memory = memory::SharedMemory::create("laneway-segment", Bytes(static_cast<int64_t>(bytes)));
  if (!memory) return memory.error();
  if (Status kept = memory.value().keep_from_children(); !kept) return kept.error();
  uint32_t number = 0;
  {
    MutexLock lock(mutex_);
    number = ++last_segment_;
  }
  auto added = connection_->request_for<wire::Done>(
      wire::AddSegment{.job = job_, .link = link_, .segment = number, .bytes = bytes},
      {memory.value().descriptor()});
  if (!added) return added.error();
  return std::make_shared<Segment>(shared_from_this(), number, std::move(memory).value());
}

void JobLink::drop_unused() {
  std::vector<uint32_t> unused;
  {
    MutexLock lock(mutex_);
    unused.swap(unused_);
  }
  for (const uint32_t segment : unused) {
    // Fails only when the job or the service is gone, and the segment with it.
    (void)connection_->request(wire::DropSegment{.job = job_, .link = link_, .segment = segment});
  }
}

void JobLink::unused(uint32_t segment) {
  MutexLock lock(mutex_);
  unused_.push_back(segment);
}

}  // namespace laneway::service
