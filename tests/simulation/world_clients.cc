// World, part: the clients, the operator and the faults.
#include <algorithm>

#include "lanes/state/kept_image.h"
#include "tests/simulation/world.h"
#include "tests/simulation/world_state.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

void World::plan_clients() {
  for (auto& [id, client] : clients_) {
    // Mostly small, now and then about the whole pool, rarely more than that.
    const int64_t largest = random_.chance(0.2) ? capacity_ : capacity_ / 4;
    const int64_t persistent = random_.between(0, largest);
    client.true_need = random_.between(0, largest);
    const double guess = random_.chance(0.5) ? 1.0 : 0.5 + random_.unit();
    const auto estimate = static_cast<int64_t>(static_cast<double>(client.true_need) * guess);
    if (random_.chance(0.3)) {
      client.grows_at = static_cast<uint64_t>(random_.between(1, 20));
      client.grown_need = client.true_need + random_.between(1, largest);
    }
    client.total = static_cast<uint64_t>(random_.between(1, 40));
    client.in_flight = static_cast<uint64_t>(random_.chance(0.3) ? 100 : random_.between(1, 3));
    client.iteration = microseconds(random_.between(10, 2000));
    client.think = microseconds(random_.chance(0.3) ? random_.between(0, 3000) : 0);
    client.offer.session = SessionId(random_.below(clients_.size()) + 1);
    client.offer.options.name = "job" + std::to_string(id.value());
    client.offer.persistent = Bytes(persistent);
    client.offer.ephemeral = Bytes(estimate);
    client.known_need = estimate;
    client.probe_need = estimate + estimate / 8;
    client.plan_kept = random_.chance(0.8);
    client.offer.options.priority = static_cast<int32_t>(random_.below(3));
    client.offer.options.total_iterations = random_.chance(0.8) ? client.total : 0;
    if (random_.chance(0.1)) client.offer.options.total_iterations = random_.chance(0.5) ? 1 : 1000;
    if (random_.chance(0.5)) client.offer.iteration_estimate = client.iteration;
    if (random_.chance(0.3)) client.aside = random_.unit();
    choose_options(client.offer.options);
    at(microseconds(random_.between(0, 30'000)), [this, number = id.value()] { arrive(number); });
  }
}

void World::plan_exchange() {
  for (auto& [id, client] : clients_) {
    client.offer.persistent = Bytes(64 * random_.between(1, 60));
    client.true_need = 64 * random_.between(0, 10);
    const bool grows = random_.chance(0.1);
    client.grows_at = grows ? static_cast<uint64_t>(random_.between(1, 20)) : UINT64_MAX;
    client.grown_need = client.true_need + 64 * random_.between(1, 30);
    client.offer.ephemeral = Bytes(client.true_need);
    client.known_need = client.probe_need = client.true_need;
    const bool serves = random_.chance(0.6);
    client.offer.options.job_class = serves ? JobClass::inference : JobClass::training;
  }
}

// When every model that serves was answered or is gone, they all end.
void World::end_served() {
  std::vector<Client*> served;
  for (auto& [id, client] : clients_) {
    if (client.gone || client.offer.options.job_class != JobClass::inference) continue;
    if (client.completed < client.total) return;
    served.push_back(&client);
  }
  for (Client* client : served) {
    ++outcome_.counts["finished"];
    check_iterations(client->offer.job);
    gone(*client);
    send(JobEnded{client->offer.job, false});
  }
}

void World::choose_options(JobOptions& options) {
  options.priority = static_cast<int32_t>(random_.between(-2, 2));
  options.weight = random_.chance(0.5) ? 1 : 0.01 + 10 * random_.unit();
  if (random_.chance(0.3)) options.deadline = milliseconds(random_.between(1, 200));
  if (random_.chance(0.2)) options.job_class = JobClass::inference;
  if (random_.chance(0.1)) options.job_class = JobClass::best_effort;
}

void World::arrive(uint64_t number) {
  Client& client = clients_.at(JobId(number));
  if (client.gone) return;  // its session died before
  ++outcome_.counts["offered"];
  send(client.offer);
  for (uint64_t i = 0; i < client.in_flight; ++i) submit(client);
}

void World::submit(Client& client) {
  if (client.gone || client.submitted >= client.total) return;
  ++client.submitted;
  if (++client.queued > 1) return;
  const JobId job = client.offer.job;
  // The edge from empty to ready. A turn that is open at the worker sees it by itself; whether the
  // core is told as well depends on who looks first.
  const auto turn = turns_.find(client.turn);
  const bool taken = turn != turns_.end();
  if (taken && !turn->second.iterating && !turn->second.recalled) start_iteration(turn->second);
  if (taken && !random_.chance(0.2)) return;
  at(delay(), [this, job, epoch = broker_epoch_] {
    if (epoch == broker_epoch_) send(WorkReady{job});
  });
}

// Its iteration is answered with an error, and the client goes on; all that are queued, if its
// image is outside and can't come back.
void World::refuse_work(Client& client, bool all) {
  ++outcome_.counts[all ? "refused while away" : "iterations refused"];
  do {
    if (client.queued == 0 || client.gone) return;
    --client.queued;
    ++client.refused;
    completed(client);
  } while (all);
}

void World::completed(Client& client) {
  ++client.completed;
  if (client.gone) return;
  if (client.completed == client.total) {
    const JobId job = client.offer.job;
    const bool serves = client.offer.options.job_class == JobClass::inference;
    at(delay() + client.think, [this, job, serves] {
      if (clients_.at(job).gone) return;
      if (kind_ == Kind::exchange && serves) return end_served();
      ++outcome_.counts["finished"];
      check_iterations(job);
      gone(clients_.at(job));
      send(JobEnded{job, false});
    });
    return;
  }
  const JobId job = client.offer.job;
  at(client.think, [this, job] { submit(clients_.at(job)); });
}

void World::gone(Client& client) {
  if (!client.gone && kind_ == Kind::exchange) at(milliseconds(1), [this] { end_served(); });
  client.gone = true;
  client.queued = 0;
}

int64_t World::need_of(const Client& client) const {
  if (client.quarantined) return 0;  // its iterations are answered, not run
  return client.completed >= client.grows_at ? client.grown_need : client.true_need;
}

World::Client* World::any_client() {
  auto client = clients_.begin();
  std::advance(client, random_.below(clients_.size()));
  return &client->second;
}

void World::plan_faults() {
  const int64_t many = random_.between(1, 15);
  for (int64_t i = 0; i < many; ++i) {
    at(Duration(random_.between(0, faults_end_.ns())), [this] { one_fault(); });
  }
  at(faults_end_ - TimePoint() + milliseconds(20), [this] { faults_are_over(); });
}

void World::one_fault() {
  Client& client = *any_client();
  const JobId job = client.offer.job;
  switch (random_.below(14)) {
    case 0:
      ++outcome_.counts["cancelled"];
      gone(client);
      return send(JobEnded{job, true});
    case 1: {
      ++outcome_.counts["sessions died"];
      const SessionId session = client.offer.session;
      std::vector<JobId> theirs;
      for (auto& [id, other] : clients_) {
        if (other.offer.session != session) continue;
        gone(other);
        theirs.push_back(id);
      }
      for (const JobId id : theirs) send(JobEnded{id, true});
      return;
    }
    case 2:
      ++outcome_.counts["capacity changed"];
      return resize(Bytes(random_.between(capacity_ / 4, capacity_ * 2)));
    case 3: return lose_worker();
    case 4:
      if (client.gone || seen_->jobs.count(job) == 0) return;
      ++outcome_.counts["need changed"];
      client.true_need = random_.between(0, capacity_ / 2);
      client.grows_at = UINT64_MAX;
      client.known_need = client.true_need;
      client.probe_need = client.true_need + client.true_need / 8;
      client.planned = false;
      return send(NeedChanged{job, Bytes(client.true_need)});
    case 5: return send(WorkReady{JobId(random_.below(100))});  // of nobody, or for nothing
    case 6:
    case 7:
      if (!seen_->worker_up) return;
      ++outcome_.counts["brokers restarted"];
      return restart_core();
    case 8:
    case 9: return wish(job);
    case 10: return change_policy();
    case 11: return change(job);
    case 12: return lose_adviser();
    default: return nonsense();
  }
}

// What no worker says.
void World::nonsense() {
  send(TurnEnded{.turn = TurnId(1'000'000 + random_.below(10)),
                 .end = TurnEnd::budget,
                 .iterations = 3,
                 .busy = milliseconds(1),
                 .more_ready = true,
                 .ephemeral = Bytes(1)});
  const JobId any(random_.below(100));
  // Of an image that is on its way it would not be nonsense, but a lie.
  const auto found = clients_.find(any);
  if (found == clients_.end() || (!found->second.placing && !found->second.is_arriving())) {
    send(ImagePlaced{any, random_.chance(0.5)});
  }
}

void World::lose_worker() {
  handle_sent();
  ++outcome_.counts["workers lost"];
  ++worker_epoch_;
  for (auto& [id, turn] : turns_) {
    Client& client = clients_.at(turn.turn.job);
    client.turn = {};
    account(client, turn);
  }
  blame_somebody();
  for (auto& [id, client] : clients_) {
    client.image = lanes::kept_image(client.image);
    client.placing = false;
  }
  turns_.clear();
  forget_plans();
  send(WorkerLost{});
  handle_sent();
  at(microseconds(random_.between(1, 20'000)), [this, epoch = worker_epoch_] {
    if (epoch != worker_epoch_) return;
    ++outcome_.counts["cores from a successor's report"];
    restart_core();
  });
}

// The worker died of what one of its lanes was at, and not for the first time. Its job is
// quarantined until somebody releases it.
void World::blame_somebody() {
  if (turns_.empty() || !random_.chance(0.5)) return;
  const JobId blamed = turns_.begin()->second.turn.job;
  clients_.at(blamed).quarantined = true;
  ++outcome_.counts["quarantined"];
  at(microseconds(random_.between(1, 20'000)), [this, blamed] { release(blamed); });
}

void World::release(JobId job) {
  Client& client = clients_.at(job);
  if (client.gone || !client.quarantined) return;
  if (!seen_->worker_up || client.turn.valid()) {
    // Between two workers nobody hears it, and one that answers requests does that first.
    return at(milliseconds(1), [this, job] { release(job); });
  }
  client.quarantined = false;
  ++outcome_.counts["released"];
  at(delay(), [this, job, epoch = broker_epoch_] {
    if (epoch == broker_epoch_) send(JobReleased{job});
  });
}

void World::wish(JobId job) {
  constexpr Residency kWishes[] = {Residency::load, Residency::unload, Residency::unload,
                                   Residency::pin, Residency::unpin};
  const Residency wanted = kWishes[random_.below(5)];
  if (!seen_->worker_up) return;
  ++outcome_.counts["asked for residency"];
  if (wanted == Residency::pin) {
    at(milliseconds(random_.between(1, 30)), [this, job] { unpin(job); });
  }
  send(ResidencyWanted{job, wanted});
}

// Where models serve for ever, the operator asks first, as the service does.
void World::resize(Bytes capacity) {
  handle_sent();
  if (kind_ == Kind::exchange && !scheduler_->may_resize(capacity)) {
    ++outcome_.counts["sizes refused"];
    return;
  }
  send(CapacityChanged{capacity});
}

void World::unpin(JobId job) {
  if (seen_->worker_up) return send(ResidencyWanted{job, Residency::unpin});
  at(milliseconds(1), [this, job] { unpin(job); });  // between two workers nobody hears it
}

// A client, or an operator, says another thing of the job than before: the truth, or a lie.
void World::change(JobId job) {
  if (!seen_->worker_up) return;
  ++outcome_.counts["changed"];
  JobChanges changes;
  changes.given = static_cast<uint8_t>(random_.below(kind_ == Kind::exchange ? 16 : 32));
  changes.values.priority = static_cast<int32_t>(random_.between(-3, 3));
  changes.values.weight = static_cast<double>(random_.between(1, 8));
  changes.values.total_iterations = random_.below(60);
  changes.values.deadline = milliseconds(random_.between(0, 100));
  changes.values.job_class = static_cast<JobClass>(random_.below(3));
  changes.apply_to(clients_.at(job).offer.options);  // as a broker keeps it for its successor
  send(JobChanged{.job = job, .changes = changes});
}

// A successor knows of a job's memory what was kept for it; of the rest it wants what a probe
// wants.
void World::forget_plans() {
  for (auto& [id, client] : clients_) {
    if (client.planned && client.plan_kept) {
      ++outcome_.counts["plans outlived a worker"];
      continue;
    }
    if (client.planned) ++outcome_.counts["plans lost with a worker"];
    client.planned = false;
    client.known_need = client.probe_need;
  }
}

// The pool may stay smaller than it was: all that it can hold must come to its end in it.
void World::faults_are_over() {
  const bool smaller = random_.below(3) == 0;
  resize(Bytes(smaller ? random_.between(capacity_ / 2, capacity_) : capacity_));
}

}  // namespace laneway::simulation
