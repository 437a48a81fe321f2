// Link: one submitter of a job as the worker keeps it: its ring and the segments in which its
// iterations' bytes lie. Guarded by the worker's mutex; what the ring's running request uses
// belongs to whoever has set WorkerJob::running.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memory/os/shared_memory.h"
#include "service/transport/ring_server.h"
#include "service/worker/common/bookkeeping.h"

namespace laneway::service {

class RingWork;

struct Link {
  Link(uint32_t link_number, uint64_t link_key, bool owners, std::shared_ptr<RingServer> link_ring)
      : number(link_number), key(link_key), is_owners(owners), ring(std::move(link_ring)) {}

  const uint32_t number;  // in its job
  const uint64_t key;     // in its worker
  const bool is_owners;   // of the client that made the job, and with which the job ends
  const std::shared_ptr<RingServer> ring;
  // Of the requests that were taken and are not published: one, and what is in flight.
  std::vector<std::shared_ptr<RingWork>> works LW_GUARDED_BY(kBookkeeping);
  std::map<uint32_t, std::shared_ptr<memory::SharedMemory>> segments
      LW_GUARDED_BY(kBookkeeping);  // by the client's number
  // A predecessor died while it wrote this client's bytes over the state: it comes first.
  std::optional<RingRequest> rewrite LW_GUARDED_BY(kBookkeeping);
  bool watched LW_GUARDED_BY(kBookkeeping) =
      false;  // by the worker's watcher: no turn of the job looks for its requests
};

}  // namespace laneway::service
