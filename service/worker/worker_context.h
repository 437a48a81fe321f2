// WorkerContext: what all parts of one worker stand on: the device, the pool, where events go, and
// the mutex. It holds no bookkeeping of its own but the number of threads that compute now, which
// all lanes add up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "adaptor/device/backend.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "service/journal/journal.h"
#include "service/worker/bookkeeping.h"
#include "service/worker/event_sink.h"
#include "service/worker/iteration_observer.h"
#include "service/worker/plan_cache.h"

namespace laneway::service {

struct WorkerContext {
  adaptor::Backend& backend;
  std::byte* const pool;  // memory of the backend's, of `capacity` bytes
  const Bytes capacity;
  EventSink& events;
  const Clock& clock;
  Journal* const journal;  // null: nothing is written down
  // Of the lanes' tapes. Thread-safe.
  PlanCache plans{backend.alignment()};

  // Both are set before there is a job.
  IterationObserver* iterations = nullptr;  // null: no trace is written
  bool shares_process = false;              // with the user's own threads

  // What a lane can have at most beside an image of so many bytes.
  Bytes room_beside(Bytes image) const {
    return capacity - std::max(image, Bytes(backend.alignment()));
  }

  // Guards everything of the worker's parts, jobs and links that names kBookkeeping. Requires: it
  // is not held while an iteration runs, bytes are copied or an event is posted.
  BookkeepingMutex mutex{};
  // Threads that the work in progress of all lanes computes with.
  uint32_t computing_threads LW_GUARDED_BY(kBookkeeping) = 0;
};

}  // namespace laneway::service
