// World, part: the worker.
#include <algorithm>
#include <utility>

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
  learn_urgency(turn);
  at_boundary(running);
}

// Asked for again (by a core that came later), it changes nothing.
void World::place(const PlaceImage& action) {
  const JobId job = action.job;
  if (std::exchange(clients_.at(job).placing, true)) return;
  ImageLife& image = clients_.at(job).image;
  if (action.prefix != image.prefix) broken("an image is placed around other bytes");
  if (action.prefix.exists()) {
    const bool moves = action.prefix.offset != action.offset;
    ++outcome_.counts[moves ? "prefixes moved" : "prefixes grown"];
    if (!moves) image.prefix = {};  // it is the image's beginning
  }
  if (image.state != ImageState::coming) image.come(image.prefix);
  at(delay(), [this, job, epoch = worker_epoch_] {
    if (epoch != worker_epoch_) return;
    Client& client = clients_.at(job);
    client.placing = false;
    if (client.gone) return;  // DropImage waits for the copy, and nobody hears of it
    if (client.image.clean) {
      const OutsidePlace& copy = client.image.copy;
      const auto found = outside_.find({copy.tier, copy.offset.count()});
      const bool is_it = found != outside_.end() && found->second.first == job &&
                         found->second.second == client.version;
      if (!is_it) broken("job " + std::to_string(job.value()) + " comes back with other bytes");
      ++outcome_.counts["came back"];
    } else if (client.version > 0) {
      broken("job " + std::to_string(job.value()) + " comes back from nothing");
    }
    if (client.image.clean && random_.chance(0.5)) {
      client.image.arrive();
    } else {
      client.image.placed();
    }
    send(ImagePlaced{job, !client.is_arriving()});
    if (client.is_arriving()) at(delay(), [this, job, epoch] { arrived(job, epoch); });
  });
}

void World::arrived(JobId job, uint64_t epoch) {
  Client& client = clients_.at(job);
  if (epoch != worker_epoch_ || !client.is_arriving()) return;
  client.image.placed();
  ++outcome_.counts["arrived while it could run"];
  send(ImagePlaced{job, true});
  if (random_.chance(0.5)) wish_for_prefix(job);
  const auto turn = turns_.find(client.turn);
  if (turn != turns_.end() && !turn->second.iterating) at_boundary(turn->second);
}

// A worker that reports to a new core gives the move up.
void World::move(JobId job) {
  at(delay(), [this, job, worker = worker_epoch_, broker = broker_epoch_] {
    if (worker != worker_epoch_ || broker != broker_epoch_ || clients_.at(job).gone) return;
    if (random_.chance(0.1)) {
      ++outcome_.counts["moves failed"];
      return send(CopyFailed{job});
    }
    ++outcome_.counts["moved"];
    send(ImagePlaced{job});
  });
}

void World::evict(const EvictImage& action) {
  ImageLife& image = clients_.at(action.job).image;
  if (image.copy != action.to) (void)image.outdate();
  ImagePrefix stays;
  if (action.keep > Bytes()) stays = {Bytes(seen_->images.at(action.job).offset), action.keep};
  image.leave_to(action.to, stays);
  at(delay(), [this, action, epoch = worker_epoch_] {
    if (epoch == worker_epoch_) leave(action);
  });
}

void World::leave(const EvictImage& action) {
  const JobId job = action.job;
  const OutsidePlace& to = action.to;
  Client& client = clients_.at(job);
  if (client.image.state != ImageState::leaving || client.gone) return;
  if (client.image.is_saved()) stop_saving(job);  // it was asked for before
  if (!client.image.clean && random_.chance(0.1)) {
    ++outcome_.counts["copies failed"];
    client.image.stay();
    return send(CopyFailed{job});
  }
  ++outcome_.counts[client.image.clean ? "left without a copy" : "left"];
  outside_[{to.tier, to.offset.count()}] = {job, client.version};
  client.image.left();
  if (action.keep > Bytes()) ++outcome_.counts["prefixes stayed"];
  send(ImageLeft{job});
}

// Node times and the link's rate are known better now.
void World::wish_for_prefix(JobId job) {
  Client& client = clients_.at(job);
  client.prefix_wanted = Bytes(random_.between(0, client.offer.persistent.count() * 5 / 4));
  send(PrefixWanted{job, client.prefix_wanted});
}

void World::save(const SaveImage& action) {
  Client& client = clients_.at(action.job);
  client.image.save_to(action.to);
  const uint64_t version = client.version;
  at(delay(), [this, job = action.job, to = action.to, epoch = worker_epoch_, version] {
    Client& saved = clients_.at(job);
    if (epoch != worker_epoch_ || !saved.image.is_saved() || saved.version != version || saved.gone)
      return;
    if (random_.chance(0.1)) return stop_saving(job);
    ++outcome_.counts["saved ahead"];
    saved.image.saved(true);
    saved.image.clean = true;  // also of one that leaves meanwhile
    outside_[{to.tier, to.offset.count()}] = {job, version};
    send(ImageSaved{job, true});
  });
}

void World::stop_saving(JobId job) {
  ++outcome_.counts["saving stopped"];
  clients_.at(job).image.saved(false);
  send(ImageSaved{job, false});
}

// The image in the pool is written: what lies outside is not it any more.
void World::touch_image(JobId job) {
  Client& client = clients_.at(job);
  ++client.version;
  if (client.image.is_saved()) {
    at(Duration(), [this, job] {
      const Client& stopped = clients_.at(job);
      if (stopped.image.is_saved() && !stopped.gone) stop_saving(job);
    });
  }
  if (!client.image.clean) return;
  (void)client.image.outdate();
  ++outcome_.counts["copies outdated"];
  at(Duration(), [this, job, epoch = broker_epoch_] {
    if (epoch == broker_epoch_) send(ImageDirty{job});
  });
}

void World::start_iteration(RunningTurn& turn) {
  const Client& client = clients_.at(turn.turn.job);
  turn.iterating = true;
  touch_image(turn.turn.job);
  turn.need = need_of(client);
  turn.took = client.iteration + microseconds(random_.between(0, 20));
  const auto computes = [&](const auto& one) {
    return one.second.iterating && one.first != turn.turn.id;
  };
  if (std::any_of(turns_.begin(), turns_.end(), computes)) turn.took = slowed(turn.took);
  turn.does_not_fit = turn.need > turn.turn.envelope.ceiling.count();
  if (turn.does_not_fit) ++outcome_.counts["out of lane"];
  turn.left = turn.does_not_fit ? Duration(turn.took.ns() / 2) : turn.took;
  turn.to_commit = Duration(turn.left.ns() * random_.between(1, 10) / 10);
  turn.held = {};
  turn.paused = turn.exempt = false;
  run_on(turn);
  at(Duration(), [this] { settle_pauses(); });
}

void World::finish_iteration(TurnId id, Duration took) {
  const auto found = turns_.find(id);
  if (found == turns_.end()) return;  // the worker was lost meanwhile
  RunningTurn& turn = found->second;
  Client& client = clients_.at(turn.turn.job);
  turn.iterating = false;
  turn.worked_at = now_;
  ++turn.done;
  turn.busy += took;
  const auto add = [took](IterationSum& sum) { sum = {sum.count + 1, sum.busy + took}; };
  if (random_.chance(client.aside)) {
    add(turn.uncounted);
  } else if (!client.planned && turn.done == 1) {
    add(turn.probes);
  }
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
  const bool over = turn.recalled || used_up;
  if (!over && client.queued > 0) {
    if (!client.is_arriving()) start_iteration(turn);  // else it waits for the bytes
  } else if (over || (bounded && !worker_keeps_idle_turns_)) {
    end_turn(id, end);
  }
}

void World::recalled(const RecallTurn& asked) {
  const auto turn = turns_.find(asked.turn);
  if (turn == turns_.end()) return;  // its end is on the way
  turn->second.recalled = true;
  if (!turn->second.iterating) {
    at_boundary(turn->second);
  } else {
    abandon_if_long(turn->second, asked.latest);
  }
}

void World::account(Client& client, const RunningTurn& turn) {
  const auto add = [](IterationSum& sum, uint64_t count, Duration busy) {
    sum = {sum.count + count, sum.busy + busy};
  };
  client.ended_iterations += turn.done;
  client.ended_busy += turn.busy;
  add(client.ended_uncounted, turn.uncounted.count, turn.uncounted.busy);
  add(client.ended_measured, turn.done - turn.uncounted.count - turn.probes.count,
      turn.busy - turn.uncounted.busy - turn.probes.busy);
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
  account(client, turn);
  if (turn.done > 0) client.abandons = 0;
  client.unheard_iterations += turn.done;
  if (turn.need > 0) {
    client.known_need = turn.need;
    // What did not fit its lane is off its plan, if it had one.
    client.planned = end != TurnEnd::out_of_lane && turn.done > 0;
  }
  TurnEnded report{.turn = id,
                   .end = end,
                   .iterations = turn.done,
                   .busy = turn.busy,
                   .more_ready = client.queued > 0,
                   .ephemeral = Bytes(turn.need),
                   .idle = turn.iterating ? Duration() : now_ - turn.worked_at,
                   .uncounted = turn.uncounted,
                   .probes = turn.probes,
                   .abandoned = turn.abandoned ? 1U : 0U};
  at(delay(), [this, report, job = turn.turn.job, epoch = broker_epoch_] {
    if (epoch != broker_epoch_) return;  // the report that the next one got knows of it
    clients_.at(job).unheard_iterations -= report.iterations;
    send(report);
  });
}

}  // namespace laneway::simulation
