// World, part: another core takes over from the worker's report: because the broker died, while the
// worker went on, or because the worker did, and its successor says what is left.
#include <algorithm>

#include "tests/simulation/turn_checker.h"
#include "tests/simulation/world.h"
#include "tests/simulation/world_state.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

// What a worker knows: places and lanes from the actions that it carried out, the rest its own.
WorkerReport World::report() const {
  WorkerReport report;
  for (const auto& [id, seen] : seen_->jobs) {
    const Client& client = clients_.at(id);
    ReportedJob job;
    job.offer = client.offer;
    job.offer.ephemeral = Bytes(client.known_need);
    job.ready = client.queued > 0 && !client.turn.valid();
    job.iterations = client.ended_iterations;
    job.busy = client.ended_busy;
    job.uncounted = client.ended_uncounted.count;
    job.measured = client.ended_measured;
    job.quarantined = client.quarantined;
    job.learnt = client.learnt;
    if (seen.lane.valid()) {
      const Range& image = seen_->images.at(id);
      job.lane = seen.lane;
      job.image_offset = Bytes(image.offset);
      job.image_size = Bytes(image.size);
      job.turn = client.turn;
      const auto turn = turns_.find(client.turn);
      job.paused = turn != turns_.end() && turn->second.paused;
    }
    job.image = client.image;
    job.prefix_wanted = client.prefix_wanted;
    report.jobs.push_back(job);
  }
  // A worker has no reason to name them in this order or that.
  std::reverse(report.jobs.begin(), report.jobs.end());
  for (const auto& [id, lane] : seen_->lanes) {
    const Range& range = seen_->regions.at(lane.region);
    report.regions.push_back({lane.region, id, Bytes(range.offset), Bytes(range.size)});
  }
  report.last_turn = last_turn_;
  report.last_region = last_region_;
  return report;
}

void World::restart_core() {
  handle_sent();
  ++broker_epoch_;
  const WorkerReport known = report();
  config_.capacity = Bytes(seen_->capacity);
  config_.wanted_capacity = Bytes(seen_->wanted_capacity);
  make_core();
  // It remembers which turns have a bound; a core made anew does not.
  checkers_[1] = std::make_unique<TurnChecker>(&keeps_apart_, &outcome_.counts["kept apart"]);
  for (auto& [id, client] : clients_) client.unheard_iterations = 0;
  send(WorkerReported{known});
  handle_sent();
  // Clients repeat what was not answered.
  for (const ReportedJob& job : known.jobs) {
    check_iterations(job.offer.job);
    if (clients_.at(job.offer.job).gone) send(JobEnded{job.offer.job, true});
  }
}

// Nothing is lost and nothing counted twice: what the core knows, what is on its way to it and what
// the open turn did are all that the worker ran.
void World::check_iterations(JobId id) {
  handle_sent();
  if (outcome_.counts["workers lost"] > 0) return;  // without a report the core never hears of some
  const Client& client = clients_.at(id);
  uint64_t known = client.unheard_iterations;
  const auto turn = turns_.find(client.turn);
  if (turn != turns_.end()) known += turn->second.done;
  for (const JobStatus& job : scheduler_->snapshot().jobs) {
    if (job.id == id && job.iterations + known != client.completed - client.refused) {
      broken("job " + std::to_string(id.value()) + " ran " + std::to_string(client.completed) +
             " iterations and the core knows of " + std::to_string(job.iterations + known));
    }
  }
}

}  // namespace laneway::simulation
