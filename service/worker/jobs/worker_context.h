// WorkerContext: what all parts of one worker stand on: the device, the pool, where events go, and
// the mutex. It holds no bookkeeping of its own but what lanes know of each other: the threads that
// compute now, and their teams.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "adaptor/device/backend.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "pipeline/outside_images.h"
#include "pipeline/prefix.h"
#include "service/journal/journal.h"
#include "service/journal/recovery_memory.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/common/event_sink.h"
#include "service/worker/common/iteration_observer.h"
#include "service/worker/common/lane_teams.h"
#include "service/worker/common/preemption.h"
#include "service/worker/jobs/recovery_choice.h"
#include "service/worker/run/graph_cache.h"
#include "service/worker/run/kept_plans.h"
#include "service/worker/run/plan_cache.h"

namespace laneway::service {

// What jobs can have of a pool: images and regions are whole units.
constexpr Bytes usable_of(Bytes capacity, Bytes reserve, int64_t unit) {
  return (capacity - reserve - Bytes(unit - 1)).aligned_up(unit);
}

struct WorkerContext {
  adaptor::Backend& backend;
  std::byte* const pool;  // memory of the backend's, of `capacity` bytes
  const Bytes capacity;
  EventSink& events;
  const Clock& clock;
  Journal* const journal;          // null: nothing is written down
  RecoveryMemory* const recovery;  // null: there is none
  // Of the lanes' tapes. Thread-safe.
  PlanCache plans{backend.alignment()};

  // Set before there is a job. Thread-safe.
  std::shared_ptr<GraphCache> graphs = std::make_shared<GraphCache>();

  // Thread-safe.
  KeptPlans kept_plans{recovery, plans};

  // These are set before there is a job.
  Bytes reserve{};                                  // of the capacity, that no job gets
  IterationObserver* iterations = nullptr;          // null: no trace is written
  bool shares_process = false;                      // with the user's own threads
  std::optional<WantedRecovery> wanted_recovery{};  // nothing: each job's costs choose
  bool images_die_with_worker = false;              // the pool is this process's own
  pipeline::OutsideImages outside{};
  pipeline::PrefixRule prefix_rule{};

  // What jobs can have of the pool.
  Bytes usable() const { return usable_of(capacity, reserve, backend.alignment()); }
  // What a lane can have at most beside an image of so many bytes.
  Bytes room_beside(Bytes image) const {
    return usable() - std::max(image, Bytes(backend.alignment()));
  }

  // Guards everything of the worker's parts, jobs and links that names kBookkeeping. Requires: it
  // is not held while an iteration runs, bytes are copied or an event is posted.
  BookkeepingMutex mutex{};
  // Which lanes hold up which others.
  Preemption preemption{};
  // Threads that the work in progress of all lanes computes with.
  uint32_t computing_threads LW_GUARDED_BY(kBookkeeping) = 0;
  LaneTeams teams{};
};

inline void note_iteration(const WorkerContext& context, const wire::IterationNote& note) {
  if (context.iterations != nullptr) context.iterations->iterated(note);
}

}  // namespace laneway::service
