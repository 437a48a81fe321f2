// JobLink: what one submitter of a job shares with the worker beside the ring: segments, sealed
// memory in which the bytes of iterations and of state lie. A segment is made here, announced once,
// kept for the next use, and given back when nothing of the service's can need it any more.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "memory/os/shared_memory.h"
#include "service/client/connection.h"

namespace laneway::service {

class JobLink;

// Memory of both sides. Who drops the last handle leaves it to the link to tell the service.
class Segment {
 public:
  Segment(std::shared_ptr<JobLink> link, uint32_t number, memory::SharedMemory memory)
      : link_(std::move(link)), number_(number), memory_(std::move(memory)) {}
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  uint32_t number() const { return number_; }
  std::byte* data() const { return memory_.data(); }
  uint64_t bytes() const { return static_cast<uint64_t>(memory_.size().count()); }

 private:
  const std::shared_ptr<JobLink> link_;
  const uint32_t number_;
  memory::SharedMemory memory_;
};

class JobLink : public std::enable_shared_from_this<JobLink> {
 public:
  JobLink(std::shared_ptr<Connection> connection, uint64_t job, uint32_t link)
      : connection_(std::move(connection)), job_(job), link_(link) {}

  // Fresh memory that the worker knows.
  Result<std::shared_ptr<Segment>> make_segment(uint64_t bytes) LW_EXCLUDES(mutex_);
  // Tells the service of segments that nobody holds any more. Speaks to it, so not from anywhere.
  void drop_unused() LW_EXCLUDES(mutex_);

 private:
  friend class Segment;
  void unused(uint32_t segment) LW_EXCLUDES(mutex_);

  const std::shared_ptr<Connection> connection_;
  const uint64_t job_;
  const uint32_t link_;
  Mutex mutex_;
  uint32_t last_segment_ LW_GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> unused_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service
