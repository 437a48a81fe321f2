// JobShown: what of a job its worker alone knows, and a status shows. It lies where whoever makes
// the status reads it while the worker goes on: in the job's record of the journal or, where there
// is no journal, in the job. Each number stands for itself and is stored and loaded relaxed.
#pragma once

#include <atomic>
#include <cstdint>

namespace laneway::service {

struct JobShown {
  std::atomic<int64_t> moved_bytes;  // of the image, by the copy that is under way

  void clear() { moved_bytes.store(0, std::memory_order_relaxed); }
};

}  // namespace laneway::service
