#include "lanes/core/exchange.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace laneway::lanes {
namespace {

// The pool when all have left who can.
struct Emptied {
  PoolMap pool;
  std::vector<Region> regions;  // of the lanes that stay open
  uint32_t max_lanes = 0;
  bool may_share = true;
};

struct Need {
  JobId job;
  Bytes image;
  Bytes region;
};

bool finds_lane(Emptied& in, Bytes ephemeral) {
  const Bytes need = in.pool.rounded(ephemeral);
  for (Region& region : in.regions) {
    if (!in.may_share) break;
    if (region.size >= need || in.pool.resize_region(region, need) == Room::done) return true;
  }
  if (in.regions.size() >= in.max_lanes) return false;
  Region region;
  region.id = RegionId(UINT64_MAX - in.regions.size());
  if (in.pool.open_region(region, ephemeral) != Room::done) return false;
  in.regions.push_back(region);
  return true;
}

bool enters(Emptied& in, const Need& need) {
  Bytes offset;
  return in.pool.place_image(need.job, need.image, &offset) == Room::done &&
         finds_lane(in, need.region);
}

// Those that no other one exceeds in both; the others fit where these do.
std::vector<Need> largest_of(std::vector<Need> all) {
  std::sort(all.begin(), all.end(), [](const Need& a, const Need& b) {
    return a.image != b.image ? a.image > b.image : a.region > b.region;
  });
  std::vector<Need> largest;
  for (const Need& need : all) {
    if (largest.empty() || need.region > largest.back().region) largest.push_back(need);
  }
  return largest;
}

bool is_training(const Job& job) { return job.view.options.job_class != JobClass::inference; }

// An image that is in the pool as well, and nobody is about to use the copy.
bool has_spare_copy(const Job& job) {
  const bool is_whole =
      job.image.state == ImageState::here || job.image.state == ImageState::moving;
  return is_whole && job.image.clean;
}

}  // namespace

struct Exchange::Case {
  const OutsideMap& outside;
  const Job* joins = nullptr;  // null: the jobs that are there
  LaneId lane;                 // that it has joined already, as far as the pool is concerned
  bool may_share = true;
  bool trainings_end = false;
  bool alone = false;  // whether `joins` finds room is all that is asked
};

bool Exchange::stays(const Case& what, const Job& job) const {
  const bool gone = what.trainings_end && is_training(job) && &job != what.joins;
  const bool there = job.view.lane.valid() || (&job == what.joins && what.lane.valid());
  return there && !gone && what.outside.home_of(job.view.id).tier == Tier::none;
}

bool Exchange::all_find_room(const Case& what) const {
  Emptied in{.pool = core_.pool,
             .regions = {},
             .max_lanes = core_.config.max_lanes,
             .may_share = what.may_share};
  std::vector<Need> needs;
  std::vector<Bytes> stay(core_.lanes.size(), Bytes(-1));  // what lanes must have
  // The latest first: what is dropped at the end of a table moves nothing.
  std::vector<const Job*> all;
  for (const auto& [id, job] : core_.jobs) all.push_back(&job);
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    const Job& job = **one;
    const JobId id = job.view.id;
    in.pool.drop_prefix(id);
    const bool joins = &job == what.joins;
    const LaneId lane = joins ? what.lane : job.view.lane;
    if (stays(what, job)) {
      Bytes& size = stay[lane.value() - 1];
      size = std::max(size, in.pool.rounded(job.view.ephemeral));
      continue;
    }
    if (lane.valid()) in.pool.drop_image(id);
    const bool gone = what.trainings_end && is_training(job) && !joins;
    const bool counts = what.alone ? joins : !gone;
    if (counts && what.outside.home_of(id).tier != Tier::none) {
      needs.push_back({id, job.view.persistent, job.view.ephemeral});
    }
  }
  for (size_t i = 0; i < core_.lanes.size(); ++i) {
    Region region = core_.lanes[i].region;
    if (!region.id.valid() || region.size == Bytes()) continue;
    if (stay[i] < Bytes()) {
      in.pool.close_region(region);
    } else {
      if (stay[i] < region.size) (void)in.pool.resize_region(region, stay[i]);
      in.regions.push_back(region);
    }
  }
  std::vector<Region*> slides;
  for (Region& region : in.regions) slides.push_back(&region);
  in.pool.slide_up(std::move(slides), nullptr);
  const Job* const joins = what.joins;
  if (joins != nullptr && !what.lane.valid() &&
      what.outside.home_of(joins->view.id).tier == Tier::none &&
      !enters(in, {joins->view.id, joins->view.persistent, joins->view.ephemeral})) {
    return false;
  }
  const std::vector<Need> largest = largest_of(std::move(needs));
  return std::all_of(largest.begin(), largest.end(), [&in](const Need& need) {
    Emptied tried = in;
    return enters(tried, need);
  });
}

bool Exchange::prepare(const Job& job, bool may_share) {
  const bool at_home = give_home(job) || give_home_for_copies(job) || give_home_by_swaps(job);
  if (at_home && core_.homeless_jobs == 0) return true;
  return all_find_room({.outside = core_.outside,
                        .joins = &job,
                        .lane = {},
                        .may_share = may_share,
                        .alone = at_home});
}

void Exchange::give_back(const Job& job) { core_.outside.drop_home(job.view.id); }

bool Exchange::holds_with(const Job& job, LaneId lane, bool may_share) const {
  if (core_.outside.home_of(job.view.id).tier != Tier::none) return true;
  return all_find_room(
      {.outside = core_.outside, .joins = &job, .lane = lane, .may_share = may_share});
}

bool Exchange::give_home(const Job& job) {
  return core_.outside.give_home(job.view.id, job.view.persistent);
}

bool Exchange::give_home_for_copies(const Job& job) {
  OutsideMap tried = core_.outside;
  std::vector<JobId> dropped;
  for (const auto& [id, other] : core_.jobs) {
    if (!has_spare_copy(other) || !tried.is_out(id)) continue;
    tried.drop(id);
    dropped.push_back(id);
    if (!tried.give_home(job.view.id, job.view.persistent)) continue;
    core_.outside = std::move(tried);
    for (const JobId gone : dropped) {
      (void)core_.job_of(gone).image.outdate();
      core_.actions.push_back(DropCopy{gone});
    }
    return true;
  }
  return false;
}

bool Exchange::give_home_by_swaps(const Job& job) {
  OutsideMap tried = core_.outside;
  for (const auto& [id, other] : core_.jobs) {
    if (!tried.is_out(id)) continue;
    tried.make_copy_its_home(id);
    if (!tried.give_home(job.view.id, job.view.persistent)) continue;
    core_.outside = std::move(tried);
    return true;
  }
  return false;
}

bool Exchange::would_help_to_wait(const Job& job, bool may_share) const {
  OutsideMap then = core_.outside;
  bool any_ends = false;
  for (const auto& [id, other] : core_.jobs) {
    if (&other == &job || !CoreState::is_admitted(other) || !is_training(other)) continue;
    any_ends = true;
    then.drop(id);
    then.drop_home(id);
  }
  if (!any_ends) return false;
  for (const auto& [id, other] : core_.jobs) {
    const bool needs_one = &other != &job && CoreState::is_admitted(other) && !is_training(other) &&
                           then.home_of(id).tier == Tier::none;
    if (needs_one) (void)then.give_home(id, other.view.persistent);
  }
  (void)then.give_home(job.view.id, job.view.persistent);
  return all_find_room(
      {.outside = then, .joins = &job, .lane = {}, .may_share = may_share, .trainings_end = true});
}

void Exchange::turn_down(Job& job, bool may_share) {
  if (!would_help_to_wait(job, may_share)) {
    exit_.refuse(job, core_.make_reason(ReasonCode::no_exchange, job));
    return;
  }
  job.reason = core_.make_reason(ReasonCode::exchange_full, job);
  core_.view.remove_waiting(job.view);
  job.aside = true;
  ++core_.jobs_aside;
  if (std::exchange(job.told, job.reason.code) != job.reason.code) {
    core_.actions.push_back(QueueJob{job.view.id, job.reason});
  }
}

void Exchange::changed() {
  // Another answer, perhaps, for those in the queue as well.
  if (!core_.view.waiting().empty()) core_.changes.note(Changed::jobs);
  // Whose pin still stands is wanted in again; an iteration or a load asks anew by itself.
  if (std::exchange(gave_up_, false)) {
    for (auto& [id, job] : core_.jobs) {
      if (!job.pinned || job.state() != JobState::away || job.queued()) continue;
      core_.enqueue(job);
      job.wanted_in = true;
    }
  }
  if (core_.jobs_aside == 0 && core_.homeless_jobs == 0) return;
  for (auto& [id, job] : core_.jobs) {
    if (job.aside) {
      job.aside = false;
      --core_.jobs_aside;
      core_.join_queue(job);
    } else if (core_.is_homeless(job) && (give_home(job) || give_home_by_swaps(job))) {
      --core_.homeless_jobs;
      core_.changes.note(Changed::jobs);  // it may leave now
    }
  }
}

void Exchange::settle_restored() {
  if (!core_.outside.exists()) return;
  std::vector<const Job*> homeless;
  for (const auto& [id, job] : core_.jobs) {
    if (core_.outside.place_of(id).tier != Tier::none) {
      core_.outside.make_copy_its_home(id);
    } else if (CoreState::is_admitted(job)) {
      homeless.push_back(&job);
    }
  }
  std::stable_sort(homeless.begin(), homeless.end(), [](const Job* a, const Job* b) {
    return a->view.persistent > b->view.persistent;
  });
  for (const Job* job : homeless) core_.homeless_jobs += !give_home(*job);
}

bool Exchange::refuse_stuck() {
  const auto& waiting = core_.view.waiting();
  const bool moves = !core_.leaving.empty() || core_.saving_jobs > 0 || core_.moving_jobs() > 0;
  if (waiting.empty() || !core_.outside.exists() || !core_.worker_up || moves ||
      core_.held_jobs() > 0) {
    return false;
  }
  for (const auto& [id, job] : core_.jobs) {
    if (!job.view.lane.valid()) continue;
    // While somebody waits for memory, turns end when they have nothing to run.
    if (job.view.running || job.state() != job.at_rest() ||
        job.image.state == ImageState::arriving || job.view.ready) {
      return false;
    }
  }
  for (const policies::JobView* view : waiting) {
    Job& job = core_.job_of(view->id);
    if (job.state() != JobState::away) continue;
    const Case alone{.outside = core_.outside,
                     .joins = &job,
                     .lane = {},
                     .may_share = policy_.shares(),
                     .alone = true};
    if (all_find_room(alone)) continue;
    const Reason why = core_.make_reason(ReasonCode::no_way_back, job);
    core_.quit_queue(job);
    job.wanted_in = false;
    gave_up_ = true;
    core_.counters.refused(why.code);
    core_.actions.push_back(RefuseWork{job.view.id, why});
    // Who was only asked to be loaded has no iteration that says why.
    job.reason = std::exchange(job.work_announced, false) ? Reason{} : why;
    job.told = job.reason.code;
    return true;
  }
  return false;
}

}  // namespace laneway::lanes
