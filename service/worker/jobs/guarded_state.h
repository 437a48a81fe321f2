// GuardedState: what a job's recoverability is at, and what was measured for it. Plain record; it
// belongs to whoever has set WorkerJob::running. state_guard.h acts on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/time.h"
#include "service/journal/recovery_memory.h"
#include "service/journal/redo_log.h"
#include "service/journal/snapshot.h"
#include "service/journal/undo_log.h"
#include "service/worker/jobs/recovery_choice.h"

namespace laneway::service {

// A moving mean over about eight values; zero: there is none yet. What was interrupted (a value far
// above the mean) counts as twice the mean.
inline void take_into(Duration& mean, Duration value) {
  if (mean == Duration()) mean = value;
  mean += Duration((std::min(value, mean * 2) - mean).ns() / 8);
}

struct GuardedState {
  GuardedState() = default;
  GuardedState(const GuardedState&) = delete;
  GuardedState& operator=(const GuardedState&) = delete;
  // Gives the job's pieces of the recovery memory back.
  ~GuardedState();

  RecoveryChoice choice;     // what is done now
  std::string missing;       // why nothing is done, when choice.method is none
  bool warned = false;       // of that
  uint64_t next_choice = 0;  // iteration at which it is chosen again
  uint64_t iterations = 0;   // that wrote, since this worker has the job
  // Moving means; 0: not measured.
  RecoveryCosts costs;

  Snapshot snapshot;
  RedoLog redo_log;
  UndoLog write_log;  // of the state write that is under way

  // A successor must restore the snapshot, and run the requests since again, before anything else
  // is done with the job.
  bool restore_pending = false;

  // Whose pieces they are; null: it has none.
  RecoveryMemory* memory = nullptr;
  uint64_t owner = 0;
};

// As reports have it.
struct RecoveryReport {
  RecoveryChoice choice;
  std::string missing;  // why choice.method is none
  Bytes bytes;          // of the recovery memory that are the job's; undo logs are the lanes'
};

}  // namespace laneway::service
