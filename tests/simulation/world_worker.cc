// World, part: the worker.
#include <algorithm>

#include "tests/simulation/world.h"
#include "tests/simulation/world_state.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

void World::granted(const Turn& turn) {
  ++outcome_.counts["turns"];
  clients_.at(turn.job).turn = turn.id;
  last_turn_ = std::max(last_turn_, turn.id);
  RunningTurn& running = turns_[turn.id];
  running.turn = turn;
  running.start = now_;
  at_boundary(running);
}

void World::start_iteration(RunningTurn& turn) {
  const TurnId id = turn.turn.id;
  const Client& client = clients_.at(turn.turn.job);
  turn.iterating = true;
  turn.need = need_of(client);
  const Duration took = client.iteration + microseconds(random_.between(0, 20));
  if (turn.need > turn.turn.envelope.ceiling.count()) {
    ++outcome_.counts["out of lane"];
    at(Duration(took.ns() / 2), [this, id] { end_turn(id, TurnEnd::out_of_lane); });
    return;
  }
  at(took, [this, id, took] { finish_iteration(id, took); });
}

void World::finish_iteration(TurnId id, Duration took) {
  const auto found = turns_.find(id);
  if (found == turns_.end()) return;  // the worker was lost meanwhile
  RunningTurn& turn = found->second;
  Client& client = clients_.at(turn.turn.job);
  turn.iterating = false;
  ++turn.done;
  turn.busy += took;
  if (client.queued > 0) --client.queued;
  completed(client);
  at_boundary(turn);
}

void World::at_boundary(RunningTurn& turn) {
  const TurnId id = turn.turn.id;
  const TurnBudget& budget = turn.turn.envelope.budget;
  const Client& client = clients_.at(turn.turn.job);
  const TurnEnd end = client.queued > 0 ? TurnEnd::budget : TurnEnd::idle;
  const bool bounded = budget.iterations > 0 || budget.slice > Duration(0);
  const bool used_up = (budget.iterations > 0 && turn.done >= budget.iterations) ||
                       (budget.slice > Duration(0) && now_ - turn.start >= budget.slice);
  if (turn.recalled || used_up) {
    end_turn(id, end);
  } else if (client.queued > 0) {
    start_iteration(turn);
  } else if (bounded && !worker_keeps_idle_turns_) {
    end_turn(id, end);
  }
}

void World::recalled(TurnId id) {
  const auto turn = turns_.find(id);
  if (turn == turns_.end()) return;  // its end is on the way
  turn->second.recalled = true;
  if (!turn->second.iterating) at_boundary(turn->second);
}

// The worker lets go at once; the core hears of it a little later, and what happens in between must
// not be lost.
void World::end_turn(TurnId id, TurnEnd end) {
  const auto found = turns_.find(id);
  if (found == turns_.end()) return;
  const RunningTurn turn = found->second;
  turns_.erase(found);
  Client& client = clients_.at(turn.turn.job);
  client.turn = {};
  client.ended_iterations += turn.done;
  client.ended_busy += turn.busy;
  client.unheard_iterations += turn.done;
  if (turn.need > 0) client.known_need = turn.need;
  TurnEnded report{.turn = id,
                   .end = end,
                   .iterations = turn.done,
                   .busy = turn.busy,
                   .more_ready = client.queued > 0,
                   .ephemeral = Bytes(turn.need)};
  at(delay(), [this, report, job = turn.turn.job, epoch = broker_epoch_] {
    if (epoch != broker_epoch_) return;  // the report that the next one got knows of it
    clients_.at(job).unheard_iterations -= report.iterations;
    send(report);
  });
}

}  // namespace laneway::simulation
