// World, part: iterations that hold up less urgent ones in other lanes, as the worker lets them: at
// once, without asking the core, before the commit phase only and for a bounded time.
#include <algorithm>

#include "tests/simulation/world.h"
#include "tests/simulation/world_state.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

namespace {

constexpr Duration kLeastBound = microseconds(500);

Duration bound_of(Duration iteration) { return std::max(kLeastBound, iteration * 4); }

}  // namespace

void World::learn_urgency(const Turn& turn) {
  const TurnEnvelope& envelope = turn.envelope;
  if ((envelope.interrupts & envelope.yields_to) != 0) broken("two turns interrupt each other");
  for (uint64_t n = 1; n <= config_.max_lanes; ++n) {
    const LaneId lane(n);
    const bool below = (envelope.interrupts & set_of(lane)) != 0;
    if (lane == turn.lane) {
      yields_to_[lane] = envelope.yields_to;
    } else if (below) {
      yields_to_[lane] |= set_of(turn.lane);
    } else {
      yields_to_[lane] &= ~set_of(turn.lane);
    }
  }
}

// The iteration of the turn ends in `left` unless something comes between.
void World::run_on(RunningTurn& turn) {
  turn.since = now_;
  at(turn.left, [this, id = turn.turn.id, run = ++turn.run] {
    const auto found = turns_.find(id);
    if (found == turns_.end() || found->second.run != run) return;
    if (found->second.does_not_fit) {
      end_turn(id, TurnEnd::out_of_lane);
    } else {
      finish_iteration(id, found->second.took);
    }
    settle_pauses();
  });
}

bool World::must_pause(const RunningTurn& turn) {
  if (!turn.iterating || turn.exempt) return false;
  if (!turn.paused && now_ - turn.since >= turn.to_commit) return false;
  const LaneSet above = yields_to_[turn.turn.lane];
  return std::any_of(turns_.begin(), turns_.end(), [&](const auto& entry) {
    const RunningTurn& other = entry.second;
    return other.iterating && !other.paused && (above & set_of(other.turn.lane)) != 0;
  });
}

// Whoever is held holds nobody, so the first look may be wrong; where a policy goes round in a
// circle, no look is right.
void World::settle_pauses() {
  for (uint32_t round = 0; round <= config_.max_lanes; ++round) {
    bool changed = false;
    for (auto& [id, turn] : turns_) {
      if (must_pause(turn) == turn.paused) continue;
      turn.paused ? resume(turn) : pause(turn);
      changed = true;
    }
    if (!changed) return;
  }
}

void World::pause(RunningTurn& turn) {
  ++outcome_.counts["paused"];
  turn.left = turn.left - (now_ - turn.since);
  turn.to_commit = turn.to_commit - (now_ - turn.since);
  turn.since = now_;
  turn.paused = true;
  const TurnId id = turn.turn.id;
  say(TurnPaused{id});
  const Duration bound = bound_of(clients_.at(turn.turn.job).iteration) - turn.held;
  at(bound, [this, id, run = ++turn.run] {
    const auto found = turns_.find(id);
    if (found == turns_.end() || found->second.run != run) return;
    ++outcome_.counts["pauses that met their bound"];
    found->second.exempt = true;
    settle_pauses();
  });
}

void World::resume(RunningTurn& turn) {
  const Duration held = now_ - turn.since;
  turn.paused = false;
  turn.held = turn.held + held;
  if (turn.held > bound_of(clients_.at(turn.turn.job).iteration)) broken("held beyond its bound");
  say(TurnResumed{turn.turn.id, held});
  run_on(turn);
}

void World::abandon_if_long(RunningTurn& turn, Duration latest) {
  constexpr uint32_t kMost = 2;
  Client& client = clients_.at(turn.turn.job);
  const Duration ran = turn.paused ? Duration() : now_ - turn.since;
  const bool commits = !turn.paused && ran >= turn.to_commit;
  if (commits || turn.left - ran <= latest || client.abandons == kMost) return;
  ++client.abandons;
  ++outcome_.counts["abandoned"];
  if (turn.paused) say(TurnResumed{turn.turn.id, now_ - turn.since});
  ++turn.run;
  turn.paused = false;
  turn.exempt = turn.abandoned = true;
  turn.need = 0;
  // At its next node; what it asks of its lane was not learnt.
  at(Duration(), [this, id = turn.turn.id] {
    end_turn(id, TurnEnd::budget);
    settle_pauses();
  });
}

// In the order in which it is said.
void World::say(const Event& event) {
  at(Duration(), [this, event, epoch = broker_epoch_] {
    if (epoch == broker_epoch_) send(event);
  });
}

}  // namespace laneway::simulation
