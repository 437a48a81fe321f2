#include "lanes/core/core_check.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/flat_map.h"

namespace laneway::lanes {
namespace {

std::string named(const Lane& lane) { return "lane " + std::to_string(lane.id.value()); }
std::string named(const Job& job) { return "job " + std::to_string(job.view.id.value()); }

struct Piece {
  Bytes offset;
  Bytes size;
};

// They are what the pool has taken, each once.
void check_pieces(const CoreState& core, const std::vector<Piece>& pieces) {
  const FlatMap<int64_t, int64_t>& taken = core.pool.ranges().taken();
  std::vector<bool> seen(taken.size());
  Bytes sum = core.pool.reserve();
  for (const Piece& piece : pieces) {
    const auto range = taken.find(piece.offset.count());
    LW_CHECK(range != taken.end() && range->second == piece.size.count(),
             "an image or region lies where the pool has none");
    const auto number = static_cast<size_t>(range - taken.begin());
    LW_CHECK(!seen[number], "two ranges of the pool overlap");
    seen[number] = true;
    sum += piece.size;
  }
  LW_CHECK(pieces.size() == taken.size(), "a range of the pool is nobody's");
  LW_CHECK(sum == core.pool.claimed(), "images and regions are not what the ledger counts");
  Bytes end;
  for (const auto& [offset, size] : taken) {
    LW_CHECK(Bytes(offset) >= end, "two ranges of the pool overlap");
    end = Bytes(offset + size);
  }
  LW_CHECK(end <= core.pool.capacity(), "a range ends behind the pool");
}

bool holds(const std::vector<const policies::JobView*>& jobs, const Job& job) {
  return std::find(jobs.begin(), jobs.end(), &job.view) != jobs.end();
}

// Adds the number of the lane's jobs to *members.
void check_members(const CoreState& core, const Lane& lane, uint64_t* members) {
  const policies::LaneView& view = *core.view.lane(lane.id);
  size_t ready = 0;
  for (const policies::JobView* job : view.jobs) {
    const Job& member = core.job_of(job->id);
    LW_CHECK(&member.view == job && job->lane == lane.id,
             named(lane) + " has a job of another lane");
    ready += job->ready;
    // While a turn is open a job that did not fit waits for the boundary.
    const bool fits = core.pool.rounded(member.must) <= lane.region.size;
    const JobState state = member.state();
    const bool moves = state == JobState::staged || state == JobState::restoring ||
                       state == JobState::evicting || state == JobState::moving;
    LW_CHECK(lane.open() || (state == JobState::held ? !fits : fits || moves),
             named(lane) + ": a job is on the wrong side of held");
  }
  *members += view.jobs.size();
  const policies::JobView* last = nullptr;
  for (const policies::JobView* job : view.ready) {
    LW_CHECK(
        job->ready && job->lane == lane.id && (last == nullptr || last->arrival < job->arrival),
        named(lane) + ": among ready");
    last = job;
  }
  LW_CHECK(view.ready.size() == ready, named(lane) + ": a job is ready, and not among them");
}

// A lane waits for another one only while a turn of that one will end.
void check_lane_turns(const CoreState& core, const TurnControl& turns) {
  if (turns.lane_turns().empty()) return;
  for (const LaneTurns::Waiting& one : turns.lane_turns().queue()) {
    const Lane& lane = core.lanes[one.lane.value() - 1];
    LW_CHECK(lane.state() == LaneState::idle && !core.view.lane(lane.id)->ready.empty(),
             named(lane) + " waits for another lane, and has nothing to run");
  }
  const bool any_ends = std::any_of(core.lanes.begin(), core.lanes.end(), [](const Lane& lane) {
    return lane.bounded || lane.state() == LaneState::recalled;
  });
  LW_CHECK(any_ends, "lanes wait for each other, and no turn will end");
}

// What a job's state says of its image. Who was to leave when its turn has ended is at rest without
// a worker, which would be asked.
bool is_state_with(const Job& job, bool worker_up) {
  const ImageState image = job.image.state;
  switch (job.state()) {
    case JobState::waiting: return image == ImageState::absent;
    case JobState::staged: return image == ImageState::coming && !job.image.clean;
    case JobState::restoring: return image == ImageState::coming && job.image.clean;
    case JobState::running:
    case JobState::paused: return job.image.is_usable() && image != ImageState::moving;
    case JobState::resident:
    case JobState::held:
    case JobState::quarantined:
      return image == ImageState::arriving || image == ImageState::here ||
             image == ImageState::saving || (image == ImageState::leaving && !worker_up);
    case JobState::evicting: return image == ImageState::leaving;
    case JobState::moving: return image == ImageState::moving;
    case JobState::away: return image == ImageState::away;
    case JobState::finished:
    case JobState::failed:
    case JobState::cancelled: return false;  // it is no job of the table
  }
  return false;
}

// But for its lane.
void check_alone(const CoreState& core, const Job& job) {
  const bool admitted = job.view.lane.valid();
  const bool away = job.state() == JobState::away;
  LW_CHECK((away || job.state() == JobState::waiting) != admitted,
           named(job) + ": lane against state");
  LW_CHECK(job.image.consistent() && is_state_with(job, core.worker_up),
           named(job) + " is " + job_state_name(job.state()) + ", and its image " +
               image_state_name(job.image.state));
  LW_CHECK(job.image.copy == core.outside.place_of(job.view.id),
           named(job) + ": its place outside");
  const bool has_turn = job.state() == JobState::running || job.state() == JobState::paused;
  LW_CHECK(job.view.running == has_turn, named(job) + ": running");
  LW_CHECK(job.must <= std::max(job.view.ephemeral, Bytes()),
           named(job) + " must have more than it needs");
  LW_CHECK(!job.view.ready || job.state() == job.at_rest(), named(job) + ": ready");
  LW_CHECK(!job.ending || has_turn, named(job) + ": its end is overdue");
  LW_CHECK(admitted || (!job.view.ready && !has_turn), named(job) + " has no lane and runs");
}

void check_outside(const CoreState& core) {
  for (const Tier tier : kTiers) {
    const memory::Ledger& ledger = core.outside.ledger(tier);
    LW_CHECK(ledger.claimed() <= ledger.capacity(), "claims exceed a tier outside of the pool");
    LW_CHECK(ledger.claimed() == core.outside.ranges(tier).taken_bytes(),
             "copies outside of the pool are not what the ledger counts");
  }
}

}  // namespace

void check_job(const CoreState& core, const Job& job) {
  check_alone(core, job);
  if (!job.view.lane.valid()) return;
  const policies::LaneView* lane = core.view.lane(job.view.lane);
  LW_CHECK(lane != nullptr, named(job) + " is in a lane that does not exist");
  LW_CHECK(holds(lane->ready, job) == job.view.ready, named(job) + ": among ready");
}

void check_lane(const CoreState& core, const TurnControl& turns, const Lane& lane) {
  LW_CHECK(core.pool.claimed() <= core.pool.capacity(), "claims exceed the pool");
  const policies::LaneView* view = core.view.lane(lane.id);
  LW_CHECK((view != nullptr) == (lane.state() != LaneState::closed), named(lane) + ": view");
  LW_CHECK(turns.open_turn(lane.id).valid() == lane.open(), named(lane) + ": turn against state");
  if (view == nullptr) return;
  LW_CHECK(view->region == lane.region.size, named(lane) + ": size of its region");
  LW_CHECK(lane.needs_region.valid() == ((core.regions_needed & set_of(lane.id)) != 0),
           named(lane) + ": whether its region is needed");
  if (lane.needs_region.valid()) {
    const Job& needs = core.job_of(lane.needs_region);
    LW_CHECK(
        needs.view.lane == lane.id && core.pool.rounded(needs.view.ephemeral) >= lane.region.size,
        named(lane) + ": who needs its region");
  }
  LW_CHECK(view->running.valid() == lane.open(), named(lane) + ": running against state");
  if (!lane.open()) return;
  LW_CHECK(turns.open_turn(lane.id) == lane.turn.id && view->running == lane.turn.job,
           named(lane) + ": another turn is open");
  const Job& job = core.job_of(lane.turn.job);
  LW_CHECK(job.view.running && job.view.lane == lane.id,
           named(job) + " has a turn in a lane that it is not in");
  const TurnEnvelope& envelope = lane.turn.envelope;
  LW_CHECK(envelope.base == lane.region.offset && envelope.ceiling == lane.region.size,
           named(lane) + ": its region changed while a turn was open");
}

void check_all(const CoreState& core, const TurnControl& turns) {
  std::vector<Piece> pieces;
  pieces.reserve(core.pool.ranges().taken_count());
  uint64_t members = core.view.waiting().size();
  for (const Lane& lane : core.lanes) {
    check_lane(core, turns, lane);
    if (lane.state() == LaneState::closed) continue;
    pieces.push_back({lane.region.offset, lane.region.size});
    check_members(core, lane, &members);
  }
  uint32_t held = 0;
  std::set<JobId> leaving;
  std::set<JobId> coming;
  uint32_t saving = 0;
  uint32_t moving = 0;
  uint32_t homeless = 0;
  uint32_t aside = 0;
  size_t copies = 0;
  size_t homes = 0;
  for (const auto& [id, job] : core.jobs) {
    check_alone(core, job);
    held += job.state() == JobState::held;
    if (job.image.state == ImageState::leaving) leaving.insert(id);
    if (job.image.comes_back()) coming.insert(id);
    saving += job.image.is_saved();
    moving += job.state() == JobState::moving;
    copies += job.image.copy.tier != Tier::none;
    const bool has_home = core.outside.home_of(id).tier != Tier::none;
    LW_CHECK(!has_home || CoreState::is_admitted(job), named(job) + " waits, and has a home");
    LW_CHECK(job.state() != JobState::away || has_home, named(job) + " is away without a home");
    homes += has_home;
    homeless += core.is_homeless(job);
    aside += job.aside;
    members += job.aside;
    members += job.state() == JobState::away && !job.queued();  // waits for nothing
    const ImagePrefix prefix = core.pool.prefix_of(id);
    const bool as_noted = job.image.state == ImageState::away
                              ? prefix == job.image.prefix
                              : !prefix.exists() || job.image.comes_back();
    LW_CHECK(as_noted, named(job) + ": what stayed of its image");
    if (prefix.exists()) pieces.push_back({prefix.offset, prefix.size});
    if (job.view.lane.valid()) {
      pieces.push_back({job.image_offset, core.pool.rounded(job.view.persistent)});
    }
    if (job.state() == JobState::moving) {
      pieces.push_back({job.image.moves_to, core.pool.rounded(job.view.persistent)});
    }
  }
  for (const policies::JobView* job : core.view.waiting()) {
    LW_CHECK(core.job_of(job->id).queued(), "a job that is not queued waits");
  }
  LW_CHECK(members == core.jobs.size(), "the view does not show every job exactly once");
  LW_CHECK(held == core.held_jobs(), "held jobs are miscounted");
  LW_CHECK(std::set(core.leaving.begin(), core.leaving.end()) == leaving &&
               leaving.size() == core.leaving.size(),
           "other jobs leave than is noted");
  LW_CHECK(std::set(core.coming.begin(), core.coming.end()) == coming &&
               coming.size() == core.coming.size(),
           "other jobs come back than is noted");
  LW_CHECK(saving == core.saving_jobs, "jobs that are saved are miscounted");
  LW_CHECK(moving == core.moving_jobs(), "jobs that move are miscounted");
  LW_CHECK(homeless == core.homeless_jobs, "jobs without a home are miscounted");
  LW_CHECK(aside == core.jobs_aside, "jobs aside are miscounted");
  LW_CHECK(homes == core.outside.homes(), "a home outside of the pool belongs to no job");
  LW_CHECK(copies == core.outside.copies(), "a copy outside of the pool belongs to no job");
  check_pieces(core, pieces);
  check_outside(core);
  check_lane_turns(core, turns);
}

}  // namespace laneway::lanes
