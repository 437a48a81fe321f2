// RecoveryChoice: how a job's state is kept recoverable while its iterations write it, chosen by
// what each way was measured to cost. Pure functions.
//
// Undo saves what an iteration overwrites, in every iteration. A snapshot copies the image every
// `interval` iterations, and the inputs of each; the worker's successor runs those iterations again
// (a checkpoint with a redo log, as databases have: Haerder and Reuter, Principles of
// Transaction-Oriented Database Recovery, 1983, section 4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace laneway::service {

enum class RecoveryMethod : uint8_t {
  none,  // a worker that dies while the state is written costs the job
  undo,
  snapshot,
};

const char* recovery_method_name(RecoveryMethod method);

// Measured, per iteration that writes: the time of the copies alone; `snapshot` is that of one.
struct RecoveryCosts {
  Duration iteration;
  Duration undo;
  Duration snapshot;
  Duration inputs;  // to copy the inputs of one iteration
};

struct RecoveryChoice {
  RecoveryMethod method = RecoveryMethod::undo;
  uint64_t interval = 1;  // iterations between snapshots
  double share = 0;       // of an iteration's time
  Duration redo;          // what a successor runs again, at most
};

// What recovery may cost: 3 % of an iteration, or 6 us where one is shorter than 200 us.
Duration recovery_budget(Duration iteration);

// An iteration gets longer by up to a fourth more than what its copies took: what they pushed out
// of the caches is read again. Measured with a proxy of an iteration that walks over its state and
// over 1 to 30 MB of other memory between copies of 0.1 to 90 MB: 1.0 to 1.2 times for copies that
// stay in the caches, 0.4 to 1.0 for those that go past them.
inline constexpr int64_t kCopiesCountPercent = 125;

// Aims at two thirds of the budget, because what is measured moves by so much. Undo where it is
// within that. Else snapshots at the smallest interval that is (so that least is run again), if
// they cost clearly less than undo; at a larger one where to run all of them again still takes no
// time that anybody notices; at a smaller one, within the budget, where it would take more than two
// seconds.
RecoveryChoice choose_recovery(const RecoveryCosts& costs);
// Undo, whatever it costs.
RecoveryChoice undo_at(const RecoveryCosts& costs);
// Snapshots, whatever undo costs: of jobs whose image cannot be undone in place.
RecoveryChoice choose_interval(const RecoveryCosts& costs);

// What a service was told to do for all jobs, whatever it costs; for tests and measurements.
struct WantedRecovery {
  RecoveryMethod method = RecoveryMethod::undo;
  uint64_t interval = 1;
  uint64_t block = 0;  // above 0: all methods in rotation, each for so many iterations
};
// "undo", "snapshot:INTERVAL" or "rotate:BLOCK:INTERVAL"; nothing for an empty text.
// invalid_argument for any other.
Result<std::optional<WantedRecovery>> parse_recovery(const std::string& text);

// What is done for a job's iteration (0: its first one that writes) with methods in rotate: blocks
// of none, undo, snapshot, snapshot, undo, none, and so on. So each method has a neighbour in time
// of each other one, in either order. A block of snapshots begins with one.
RecoveryMethod rotated_method(uint64_t iteration, uint64_t block);

}  // namespace laneway::service
