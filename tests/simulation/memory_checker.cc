#include "tests/simulation/memory_checker.h"

#include <map>

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file
namespace {

std::string check_move(const Observed& seen, const MoveImage& move) {
  const auto job = seen.jobs.find(move.job);
  if (job == seen.jobs.end() || !job->second.placed) return "an image moves that is not there";
  if (job->second.turn.valid()) return "an image moves under an open turn";
  if (job->second.arriving || job->second.leaving || job->second.saving) {
    return "an image moves that is being copied";
  }
  if (!seen.moves.empty()) return "two images move at once";
  if (move.size.count() != job->second.image_need) return "an image moves in another size";
  return "";
}

// Whether the image's beginning is where the action says.
bool stayed(const Observed& seen, const PlaceImage& place) {
  const auto prefix = seen.prefixes.find(place.job);
  return prefix != seen.prefixes.end() && prefix->second.offset == place.prefix.offset.count() &&
         prefix->second.size == place.prefix.size.count();
}

}  // namespace

std::string MemoryChecker::action(const Observed& seen, const Action& action) {
  if (const auto* place = std::get_if<PlaceImage>(&action)) {
    const auto job = seen.jobs.find(place->job);
    if (job == seen.jobs.end()) return "an image for a job that does not exist";
    if (!job->second.lane.valid()) return "an image for a job that was not admitted";
    if (place->size.count() != job->second.image_need) return "an image of another size";
    if (place->prefix.exists() && !stayed(seen, *place)) {
      return "an image begins with bytes that did not stay";
    }
  }
  if (const auto* evict = std::get_if<EvictImage>(&action)) {
    const auto job = seen.jobs.find(evict->job);
    if (job == seen.jobs.end() || !job->second.placed) return "an image leaves that is not there";
    if (job->second.turn.valid()) return "an image leaves under an open turn";
    if (job->second.arriving) return "an image leaves that is still arriving";
    if (job->second.leaving) return "an image leaves twice";
    if (seen.moves.count(evict->job) > 0) return "an image leaves that is moving";
    if (evict->size.count() != job->second.image_need) return "an image leaves in another size";
    if (evict->keep < Bytes() || evict->keep >= evict->size) return "all of an image stays";
  }
  if (const auto* move = std::get_if<MoveImage>(&action)) {
    if (std::string wrong = check_move(seen, *move); !wrong.empty()) return wrong;
  }
  if (const auto* save = std::get_if<SaveImage>(&action)) {
    const auto job = seen.jobs.find(save->job);
    if (job == seen.jobs.end() || !job->second.placed) return "an image is saved that is not there";
    if (job->second.turn.valid()) return "an image is saved under an open turn";
    if (seen.outside.count(save->job) > 0) return "an image is saved that has a place outside";
    if (save->size.count() != job->second.image_need) return "an image is saved in another size";
    if (save->to.tier != Tier::store) return "an image is saved ahead of need, and not in memory";
  }
  if (const auto* drop = std::get_if<DropCopy>(&action)) {
    if (seen.outside.count(drop->job) == 0) return "a copy is given up that does not exist";
    const SeenJob& job = seen.jobs.at(drop->job);
    if (job.saving) return "a copy is given up that is being made";
    if (!job.placed || job.arriving || job.leaving) return "the only copy of an image is given up";
  }
  if (const auto* drop = std::get_if<DropPrefix>(&action)) {
    if (seen.prefixes.count(drop->job) == 0) return "what did not stay is given up";
    if (!seen.jobs.at(drop->job).away) return "what is still read is given up";
  }
  if (const auto* drop = std::get_if<DropImage>(&action)) {
    if (seen.images.count(drop->job) == 0 && seen.outside.count(drop->job) == 0) {
      return "an image is dropped that does not exist";
    }
    if (!seen.jobs.at(drop->job).ended) return "a living job's image is dropped";
    if (seen.jobs.at(drop->job).turn.valid()) return "an image is dropped under an open turn";
  }
  RegionId changed;
  if (const auto* resize = std::get_if<ResizeRegion>(&action)) changed = resize->region;
  if (const auto* close = std::get_if<CloseRegion>(&action)) changed = close->region;
  if (changed.valid()) {
    if (seen.regions.count(changed) == 0) return "a region changes that does not exist";
    for (const auto& [id, lane] : seen.lanes) {
      if (lane.region == changed && lane.running.valid()) return "a region changes under a turn";
    }
  }
  if (const auto* open = std::get_if<OpenRegion>(&action)) {
    if (seen.regions.count(open->region) > 0) return "a region is opened twice";
    const auto lane = seen.lanes.find(open->lane);
    if (lane != seen.lanes.end() && lane->second.region.valid()) return "a lane with two regions";
  }
  const bool no_memory = std::holds_alternative<GrantTurn>(action) ||
                         std::holds_alternative<RecallTurn>(action) ||
                         std::holds_alternative<QueueJob>(action);
  if (no_memory) return "";
  Observed after = seen;
  after.apply(action);
  return check_state(after);
}

std::string MemoryChecker::check_outside(const Observed& seen) const {
  for (const Tier tier : {Tier::store, Tier::spill}) {
    std::map<int64_t, int64_t> taken;
    for (const auto& [id, copy] : seen.outside) {
      if (copy.tier != tier) continue;
      if (!taken.emplace(copy.range.offset, copy.range.size).second) return "two copies in a place";
    }
    int64_t end = 0;
    for (const auto& [offset, size] : taken) {
      if (offset < end) return "copies overlap at " + std::to_string(offset);
      end = offset + size;
    }
    if (end > seen.capacity_of(tier)) return "a copy ends beyond its tier";
  }
  return "";
}

std::string MemoryChecker::check_state(const Observed& seen) const {
  if (std::string broken = check_outside(seen); !broken.empty()) return broken;
  if (seen.claimed() > seen.capacity) {
    return "claims of " + std::to_string(seen.claimed()) + " bytes in a pool of " +
           std::to_string(seen.capacity);
  }
  std::map<int64_t, int64_t> taken;
  for (const auto& [id, range] : seen.images) {
    if (!taken.emplace(range.offset, range.size).second) return "two ranges start together";
  }
  for (const auto& [id, range] : seen.moves) {
    if (!taken.emplace(range.offset, range.size).second) return "two ranges start together";
  }
  for (const auto& [id, range] : seen.prefixes) {
    if (!taken.emplace(range.offset, range.size).second) return "two ranges start together";
  }
  for (const auto& [id, range] : seen.regions) {
    if (!taken.emplace(range.offset, range.size).second) return "two ranges start together";
  }
  int64_t end = 0;
  for (const auto& [offset, size] : taken) {
    if (offset < end) return "ranges overlap at " + std::to_string(offset);
    if (offset % seen.alignment != 0 || size % seen.alignment != 0) return "unaligned range";
    end = offset + size;
  }
  return end > seen.capacity ? "a range ends beyond the pool" : "";
}

std::string MemoryChecker::settled(const Observed& seen, const Event& /*event*/) {
  for (const auto& [id, lane] : seen.lanes) {
    if (!lane.region.valid()) return "a lane without a region";
    bool used = false;
    for (const auto& [job_id, job] : seen.jobs) used = used || job.lane == id;
    if (!used) return "lane " + std::to_string(id.value()) + " stays open without jobs";
  }
  for (const auto& [id, job] : seen.jobs) {
    if (job.lane.valid() && seen.images.count(id) == 0) return "an admitted job has no image";
    if (job.ended && !job.turn.valid()) return "an ended job is still there";
  }
  return "";
}

}  // namespace laneway::simulation
