// What World keeps of each client and of each turn that is open at the worker.
#pragma once

#include "tests/simulation/world.h"

namespace laneway::simulation {

struct World::Client {
  lanes::JobOffered offer;
  uint64_t total = 0;
  uint64_t submitted = 0;
  uint64_t queued = 0;  // the iteration that runs included
  uint64_t completed = 0;
  uint64_t refused = 0;  // of those
  uint64_t in_flight = 1;
  int64_t true_need = 0;
  uint64_t grows_at = UINT64_MAX;
  int64_t grown_need = 0;
  Duration iteration;
  Duration think;
  TurnId turn;  // open at the worker
  // What the worker knows of it, whoever listens.
  lanes::ImageLife image;  // moves apart, which it does not note
  bool placing = false;
  uint64_t version = 0;  // how often its image was written
  Bytes prefix_wanted;
  int64_t known_need = 0;
  int64_t probe_need = 0;  // what a worker that has measured nothing wants for its first iteration
  bool planned = false;    // known_need was measured
  bool plan_kept = false;  // the recovery memory has room for its plan
  bool quarantined = false;
  double aside = 0;               // how many of its iterations do not count against its total
  uint64_t ended_iterations = 0;  // of turns that ended
  Duration ended_busy;
  lanes::IterationSum ended_uncounted;
  lanes::IterationSum ended_measured;  // of those that count, all but the probes
  lanes::Learnt learnt;                // as the core told last
  uint64_t unheard_iterations = 0;     // of those, what is still on its way to the core
  bool gone = false;
  bool is_arriving() const { return image.state == lanes::ImageState::arriving; }
  uint32_t abandons = 0;  // of its first queued iteration
};

struct World::RunningTurn {
  lanes::Turn turn;
  TimePoint start;
  TimePoint worked_at;
  uint64_t done = 0;
  Duration busy;
  lanes::IterationSum uncounted;
  lanes::IterationSum probes;
  int64_t need = 0;  // of the iteration that was started last
  bool iterating = false;
  bool recalled = false;
  // Of the iteration: what it takes, what of that is left, and left before its commit phase, since
  // when it runs or is held, and for how long it was held in all.
  Duration took;
  Duration left;
  Duration to_commit;
  TimePoint since;
  Duration held;
  bool does_not_fit = false;
  bool abandoned = false;
  bool paused = false;
  bool exempt = false;  // it was held for long enough
  uint64_t run = 0;     // changes with all of this
};

}  // namespace laneway::simulation
