#include "tests/simulation/observed.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

int64_t Observed::rounded(Bytes bytes) const {
  const int64_t count = std::max<int64_t>(bytes.count(), 1);
  return (count + alignment - 1) / alignment * alignment;
}

int64_t Observed::claimed() const {
  int64_t sum = reserve;
  for (const auto& [id, range] : images) sum += range.size;
  for (const auto& [id, range] : moves) sum += range.size;
  for (const auto& [id, range] : prefixes) sum += range.size;
  for (const auto& [id, range] : regions) sum += range.size;
  return sum;
}

bool Observed::is_on_demand(JobId prefix) const { return worker_up && jobs.at(prefix).away; }

int64_t Observed::on_demand() const {
  int64_t sum = 0;
  for (const auto& [id, range] : prefixes) sum += is_on_demand(id) ? range.size : 0;
  return sum;
}

int64_t Observed::largest_gap(RegionId without) const {
  std::vector<Range> taken;
  for (const auto& [id, range] : images) taken.push_back(range);
  for (const auto& [id, range] : moves) taken.push_back(range);
  for (const auto& [id, range] : prefixes) {
    if (!is_on_demand(id)) taken.push_back(range);
  }
  for (const auto& [id, range] : regions) {
    if (id != without) taken.push_back(range);
  }
  std::sort(taken.begin(), taken.end(),
            [](const Range& a, const Range& b) { return a.offset < b.offset; });
  int64_t gap = 0;
  int64_t end = 0;
  for (const Range& range : taken) {
    gap = std::max(gap, range.offset - end);
    end = range.offset + range.size;
  }
  return std::max(gap, capacity - end);
}

bool Observed::fits_lane(const SeenJob& job) const {
  return job.must <= regions.at(lanes.at(job.lane).region).size;
}

bool Observed::eligible(const SeenJob& job) const {
  return job.lane.valid() && job.placed && !job.leaving && moves.count(job.offer.job) == 0 &&
         job.announced && !job.ended && !job.turn.valid() && fits_lane(job);
}

bool Observed::may_be_in(const SeenJob& job, LaneId lane) const {
  const auto is_inference = [](const SeenJob& one) {
    return one.offer.options.job_class == JobClass::inference;
  };
  std::set<LaneId> counted;
  for (const auto& [id, other] : jobs) {
    if (other.lane.valid() && !is_inference(other)) counted.insert(other.lane);
  }
  return is_inference(job) || counted.count(lane) > 0 || counted.size() < lane_limit;
}

void Observed::on(const JobOffered& event) {
  if (jobs.count(event.job) > 0) return;
  SeenJob job;
  job.offer = event;
  job.arrival = job.queue = ++arrivals_;
  job.image_need = rounded(event.persistent);
  job.region_need = rounded(event.ephemeral);
  jobs[event.job] = job;
}

void Observed::set_need(SeenJob& job, Bytes need) const {
  (job.need_when_released ? *job.need_when_released : job.region_need) = rounded(need);
  job.must = std::min(job.must, job.region_need);
}

namespace {

// The mean of its iterations lately: an older one counts half after each 32 further ones.
void measure(SeenJob& job, uint64_t many, int64_t ns) {
  if (many >= 32) {
    job.measured = job.measured_ns = 0;
  } else if (job.measured + many > 64) {
    job.measured_ns = job.measured_ns / static_cast<int64_t>(job.measured) * 32;
    job.measured = 32;
  }
  job.measured += many;
  job.measured_ns += ns;
}

}  // namespace

void Observed::close_turn(TurnId id) {
  const SeenTurn turn = turns.at(id);
  turns.erase(id);
  lanes.at(turn.lane).running = {};
  lanes.at(turn.lane).recalled = lanes.at(turn.lane).hurried = false;
  jobs.at(turn.job).turn = {};
}

void Observed::on(const TurnEnded& event) {
  const auto turn = turns.find(event.turn);
  if (turn == turns.end()) return;
  SeenJob& job = jobs.at(turn->second.job);
  close_turn(event.turn);
  job.iterations += event.iterations;
  job.busy_ns += event.busy.ns();
  ++job.turns;
  const uint64_t counted = event.iterations - event.uncounted.count;
  job.counted += counted;
  measure(job, counted - event.probes.count,
          event.busy.ns() - event.uncounted.busy.ns() - event.probes.busy.ns());
  if (event.more_ready || event.end == TurnEnd::out_of_lane) job.announced = true;
  if (event.iterations > 0) job.must = 0;
  if (event.ephemeral > Bytes(0)) set_need(job, event.ephemeral);
  if (event.end == TurnEnd::out_of_lane && !job.need_when_released) job.must = job.region_need;
  if (event.end == TurnEnd::failed) job.ended = true;
}

void Observed::on(const WorkerReported& event) {
  worker_up = true;
  jobs.clear();
  lanes.clear();
  turns.clear();
  images.clear();
  moves.clear();
  prefixes.clear();
  regions.clear();
  outside.clear();
  arrivals_ = 0;
  for (const ReportedRegion& region : event.report.regions) {
    regions[region.region] = {region.offset.count(), region.size.count()};
    lanes[region.lane].region = region.region;
  }
  std::map<JobId, ReportedJob> ordered;
  for (const ReportedJob& job : event.report.jobs) ordered[job.offer.job] = job;
  for (const auto& [id, reported] : ordered) {
    on(reported.offer);
    SeenJob& job = jobs.at(id);
    job.lane = reported.lane;
    const ImageLife& image = reported.image;
    job.placed = image.is_usable();
    job.arriving = image.state == ImageState::arriving;
    job.announced = reported.ready;
    if (reported.quarantined) job.need_when_released = std::exchange(job.region_need, rounded({}));
    job.iterations = reported.iterations;
    job.busy_ns = reported.busy.ns();
    job.counted = reported.iterations - reported.uncounted;
    job.measured = reported.measured.count;
    job.measured_ns = reported.measured.busy.ns();
    const OutsidePlace& copy = image.copy;
    if (copy.tier != Tier::none) outside[id] = {copy.tier, {copy.offset.count(), job.image_need}};
    job.leaving = image.state == ImageState::leaving;
    job.saving = image.state == ImageState::saving;
    if (job.leaving) job.keep = image.prefix.size.count();
    if (image.prefix.exists() && !job.leaving) {
      prefixes[id] = {image.prefix.offset.count(), image.prefix.size.count()};
    }
    job.away = image.state == ImageState::away;
    if (!reported.lane.valid()) continue;
    images[id] = {reported.image_offset.count(), reported.image_size.count()};
    if (!reported.turn.valid()) continue;
    job.turn = reported.turn;
    turns[reported.turn] = {id, reported.lane};
    lanes[reported.lane].running = id;
  }
}

void Observed::end(SeenJob& job) {
  job.ended = true;
  // Nothing was given to it: it is gone. Otherwise it goes with its image (DropImage).
  if (!job.lane.valid() && !job.away) jobs.erase(job.offer.job);
}

void Observed::left(SeenJob& job) {
  const Range image = images.at(job.offer.job);
  images.erase(job.offer.job);
  if (job.keep > 0) prefixes[job.offer.job] = {image.offset, job.keep};
  job.lane = {};
  job.placed = false;
  job.leaving = false;
  job.away = true;
  if (job.announced) job.queue = ++arrivals_;
}

void Observed::on_outside(const Event& event) {
  const auto known = [this](JobId id) {
    const auto job = jobs.find(id);
    return job != jobs.end() ? &job->second : nullptr;
  };
  if (const auto* gone = std::get_if<ImageLeft>(&event)) {
    if (SeenJob* job = known(gone->job); job != nullptr && job->leaving) left(*job);
  }
  if (const auto* failed = std::get_if<CopyFailed>(&event)) {
    moves.erase(failed->job);
    if (SeenJob* job = known(failed->job); job != nullptr && job->leaving) {
      job->leaving = false;
      outside.erase(failed->job);
    }
  }
  if (const auto* saved = std::get_if<ImageSaved>(&event)) {
    SeenJob* job = known(saved->job);
    if (job != nullptr && job->saving) {
      job->saving = false;
      if (!saved->whole && !job->leaving) outside.erase(saved->job);
    }
  }
  if (const auto* dirty = std::get_if<ImageDirty>(&event)) {
    SeenJob* job = known(dirty->job);
    if (job != nullptr && job->placed && !job->arriving && !job->leaving) {
      outside.erase(dirty->job);
    }
  }
  if (const auto* wish = std::get_if<ResidencyWanted>(&event)) {
    SeenJob* job = known(wish->job);
    if (job == nullptr) return;
    const bool in = wish->wanted == Residency::load || wish->wanted == Residency::pin;
    if (in && job->away) {
      if (!job->waits()) job->queue = ++arrivals_;
      job->wanted_in = true;
    }
    if (wish->wanted == Residency::unload) job->wanted_in = false;
  }
}

void Observed::on_outside(const Action& action) {
  if (const auto* evict = std::get_if<EvictImage>(&action)) {
    outside[evict->job] = {evict->to.tier, {evict->to.offset.count(), evict->size.count()}};
    jobs.at(evict->job).leaving = true;
    jobs.at(evict->job).keep = evict->keep.count();
  }
  if (const auto* save = std::get_if<SaveImage>(&action)) {
    outside[save->job] = {save->to.tier, {save->to.offset.count(), save->size.count()}};
    jobs.at(save->job).saving = true;
  }
  if (const auto* drop = std::get_if<DropCopy>(&action)) outside.erase(drop->job);
  if (const auto* drop = std::get_if<DropPrefix>(&action)) prefixes.erase(drop->job);
}

void Observed::apply(const Event& event) {
  if (const auto* offered = std::get_if<JobOffered>(&event)) on(*offered);
  if (const auto* ended = std::get_if<TurnEnded>(&event)) on(*ended);
  if (const auto* reported = std::get_if<WorkerReported>(&event)) on(*reported);
  if (const auto* placed = std::get_if<ImagePlaced>(&event)) {
    const auto move = moves.find(placed->job);
    if (move != moves.end()) {
      images.at(placed->job) = move->second;
      moves.erase(move);
    }
    if (images.count(placed->job) > 0) {
      SeenJob& job = jobs.at(placed->job);
      if (!job.placed) job.arriving = !placed->whole && outside.count(placed->job) > 0;
      if (placed->whole) job.arriving = false;
      if (placed->whole) prefixes.erase(placed->job);
      job.placed = job.placed || placed->whole || job.arriving;
    }
  }
  if (const auto* ready = std::get_if<WorkReady>(&event)) {
    if (jobs.count(ready->job) > 0) {
      SeenJob& job = jobs[ready->job];
      if (job.away && !job.waits()) job.queue = ++arrivals_;
      job.announced = true;
    }
  }
  if (const auto* changed = std::get_if<JobChanged>(&event)) {
    const auto job = jobs.find(changed->job);
    if (job != jobs.end()) changed->changes.apply_to(job->second.offer.options);
  }
  if (const auto* need = std::get_if<NeedChanged>(&event)) {
    if (jobs.count(need->job) > 0) set_need(jobs[need->job], need->ephemeral);
  }
  if (const auto* released = std::get_if<JobReleased>(&event)) {
    const auto job = jobs.find(released->job);
    if (job != jobs.end() && job->second.need_when_released) {
      job->second.region_need = *std::exchange(job->second.need_when_released, {});
    }
  }
  if (const auto* ended = std::get_if<JobEnded>(&event)) {
    if (jobs.count(ended->job) > 0) end(jobs[ended->job]);
  }
  if (std::holds_alternative<WorkerLost>(event)) {
    worker_up = false;
    prefixes.clear();
    while (!turns.empty()) {
      jobs.at(turns.begin()->second.job).announced = true;
      close_turn(turns.begin()->first);
    }
  }
  on_outside(event);
  if (const auto* changed = std::get_if<CapacityChanged>(&event)) {
    wanted_capacity = changed->capacity.count() / alignment * alignment;
    capacity = std::max(capacity, wanted_capacity);
  }
}

void Observed::apply(const Action& action) {
  if (const auto* admit = std::get_if<AdmitJob>(&action)) {
    SeenJob& job = jobs.at(admit->job);
    job.lane = admit->lane;
    job.away = job.wanted_in = false;
    lanes[admit->lane];
  }
  if (const auto* queue = std::get_if<QueueJob>(&action)) {
    jobs.at(queue->job).aside = queue->reason.code == ReasonCode::exchange_full;
  }
  if (const auto* change = std::get_if<ChangeLane>(&action)) {
    jobs.at(change->job).lane = change->lane;
  }
  if (const auto* refuse = std::get_if<RefuseJob>(&action)) {
    const auto job = jobs.find(refuse->job);
    if (job != jobs.end()) end(job->second);
  }
  if (const auto* refuse = std::get_if<RefuseWork>(&action)) {
    SeenJob& job = jobs.at(refuse->job);
    job.must = 0;
    job.announced = !job.away;  // what comes behind it
    if (job.away) job.wanted_in = false;
  }
  if (const auto* place = std::get_if<PlaceImage>(&action)) {
    images[place->job] = {place->offset.count(), place->size.count()};
    if (place->prefix.offset == place->offset) prefixes.erase(place->job);
  }
  if (const auto* move = std::get_if<MoveImage>(&action)) {
    moves[move->job] = {move->offset.count(), move->size.count()};
  }
  if (const auto* drop = std::get_if<DropImage>(&action)) {
    images.erase(drop->job);
    moves.erase(drop->job);
    prefixes.erase(drop->job);
    outside.erase(drop->job);
    jobs.erase(drop->job);
  }
  on_outside(action);
  if (const auto* pool = std::get_if<ResizePool>(&action)) capacity = pool->capacity.count();
  if (const auto* open = std::get_if<OpenRegion>(&action)) {
    regions[open->region] = {open->offset.count(), open->size.count()};
    lanes[open->lane].region = open->region;
  }
  if (const auto* resize = std::get_if<ResizeRegion>(&action)) {
    regions[resize->region] = {resize->offset.count(), resize->size.count()};
  }
  if (const auto* close = std::get_if<CloseRegion>(&action)) {
    regions.erase(close->region);
    std::erase_if(lanes, [close](const auto& lane) { return lane.second.region == close->region; });
  }
  if (const auto* grant = std::get_if<GrantTurn>(&action)) {
    const Turn& turn = grant->turn;
    turns[turn.id] = {turn.job, turn.lane};
    lanes[turn.lane].running = turn.job;
    jobs.at(turn.job).turn = turn.id;
    jobs.at(turn.job).announced = false;
  }
  if (const auto* recall = std::get_if<RecallTurn>(&action)) {
    lanes[recall->lane].recalled = true;
    lanes[recall->lane].hurried = recall->latest < kWhenever;
  }
}

}  // namespace laneway::simulation
