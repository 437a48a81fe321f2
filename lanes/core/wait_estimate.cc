#include "lanes/core/wait_estimate.h"

#include <algorithm>
#include <map>
#include <vector>

namespace laneway::lanes {
namespace {

// Far more than anybody waits; sums of as many as there are jobs stay far from overflow.
constexpr double kLongestNs = 1e15;

// What a job that holds memory still has to run, alone in its lane; nothing when not known. Its
// pace was seen while `sharers` jobs, itself included, took turns.
std::optional<double> work_left_ns(const JobStatus& job, size_t sharers) {
  if (job.options.total_iterations == 0 || job.iterations == 0 || job.device_time <= Duration()) {
    return std::nullopt;
  }
  if (job.iterations >= job.options.total_iterations) return 0.0;
  const double device =
      static_cast<double>(job.device_time.ns()) / static_cast<double>(job.iterations);
  const double pace = static_cast<double>(job.pace.ns()) / static_cast<double>(sharers);
  const double mean = std::max(device, pace);
  const double left = mean * static_cast<double>(job.options.total_iterations - job.iterations);
  return std::min(left, kLongestNs);
}

// Whether the job stands in the queue: one that is away does only when it has work.
bool waits(const JobStatus& job) {
  return job.state == JobState::waiting || (job.state == JobState::away && job.reason.position > 0);
}

struct Ending {
  double at_ns = 0;
  JobId job;
  LaneId lane;
  int64_t region = 0;  // what the lane's region needs from then on
  bool empties_lane = false;
};

struct Range {
  int64_t from = 0;
  int64_t to = 0;
  int64_t size() const { return to - from; }
};

// What of the pool is free, in pieces: an image or a region needs one that is as long as it is. It
// stays where it is, and a region that shrinks keeps its upper end.
class FreePieces {
 public:
  explicit FreePieces(const Snapshot& now) {
    for (const PoolPiece& piece : now.pool) {
      const Range range{piece.offset.count(), piece.offset.count() + piece.size.count()};
      switch (piece.kind) {
        case PieceKind::free: free_.push_back(range); break;
        case PieceKind::image: images_[piece.job] = range; break;
        case PieceKind::region: regions_[piece.lane] = range; break;
      }
    }
  }
  void give_back(const Ending& ending) {
    const auto image = images_.find(ending.job);
    if (image != images_.end()) free_.push_back(image->second);
    const auto region = regions_.find(ending.lane);
    if (region == regions_.end()) return;
    Range& kept = region->second;
    const int64_t from = ending.empties_lane ? kept.to : kept.to - ending.region;
    if (from <= kept.from) return;
    free_.push_back({kept.from, from});
    kept.from = from;
  }
  // Whether all of these find pieces at once, each in the shortest one that is long enough.
  bool hold(const std::vector<int64_t>& sizes) const {
    std::vector<Range> pieces = joined();
    for (const int64_t size : sizes) {
      Range* best = nullptr;
      for (Range& piece : pieces) {
        if (piece.size() >= size && (best == nullptr || piece.size() < best->size())) best = &piece;
      }
      if (best == nullptr) return false;
      best->from += size;
    }
    return true;
  }

 private:
  std::vector<Range> joined() const {
    std::vector<Range> pieces = free_;
    std::sort(pieces.begin(), pieces.end(),
              [](const Range& a, const Range& b) { return a.from < b.from; });
    std::vector<Range> joined;
    for (const Range& piece : pieces) {
      if (joined.empty() || joined.back().to < piece.from) {
        joined.push_back(piece);
      } else {
        joined.back().to = std::max(joined.back().to, piece.to);
      }
    }
    return joined;
  }

  std::vector<Range> free_;
  std::map<JobId, Range> images_;
  std::map<LaneId, Range> regions_;
};

// The jobs of one lane in the order in which they end, up to the first of which nothing is known
// (jobs without an end sort behind all others, and slow those before them down as well).
void add_endings(const std::vector<const JobStatus*>& jobs, int64_t region,
                 std::vector<Ending>* endings) {
  std::vector<std::pair<double, const JobStatus*>> known;
  for (const JobStatus* job : jobs) {
    if (const auto left = work_left_ns(*job, jobs.size())) known.emplace_back(*left, job);
  }
  std::stable_sort(known.begin(), known.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  double at = 0;
  double before = 0;
  size_t others = jobs.size();
  std::vector<const JobStatus*> here = jobs;
  for (const auto& [left, job] : known) {
    at += (left - before) * static_cast<double>(others);
    before = left;
    --others;
    std::erase(here, job);
    int64_t need = 0;
    for (const JobStatus* other : here) need = std::max(need, other->ephemeral.count());
    region = std::min(region, need);
    endings->push_back({at, job->id, job->lane, region, here.empty()});
  }
}

// What the estimates of one snapshot have in common.
struct Outlook {
  std::map<uint32_t, const JobStatus*> queue;  // by position
  std::vector<Ending> endings;                 // by time
  bool wants_lanes = false;
  // A held job is before all of them, and nobody knows what it waits for.
  bool held = false;
};

Outlook look_at(const Snapshot& now) {
  Outlook seen;
  std::map<LaneId, std::vector<const JobStatus*>> lanes;
  for (const JobStatus& job : now.jobs) {
    if (waits(job)) seen.queue[job.reason.position] = &job;
    if (job.lane.valid()) lanes[job.lane].push_back(&job);
    if (job.state == JobState::held && job.waiting_since) seen.held = true;
  }
  if (seen.held || seen.queue.empty()) return seen;
  seen.wants_lanes = seen.queue.begin()->second->reason.code == ReasonCode::lanes_exhausted;
  for (const RegionStatus& region : now.regions) {
    add_endings(lanes[region.lane], region.size.count(), &seen.endings);
  }
  std::stable_sort(seen.endings.begin(), seen.endings.end(),
                   [](const Ending& a, const Ending& b) { return a.at_ns < b.at_ns; });
  return seen;
}

// Of the job that waits at this position.
std::optional<Duration> wait_at(const Snapshot& now, const Outlook& seen, uint32_t asked) {
  if (seen.held) return std::nullopt;
  std::vector<int64_t> sizes;
  int64_t lanes_missing = 0;
  for (const auto& [position, job] : seen.queue) {
    if (position > asked) break;
    sizes.push_back(job->persistent.count());
    sizes.push_back(job->ephemeral.count());
    lanes_missing += seen.wants_lanes ? 1 : 0;
  }
  FreePieces pieces(now);
  for (const Ending& ending : seen.endings) {
    pieces.give_back(ending);
    lanes_missing -= ending.empties_lane ? 1 : 0;
    if (lanes_missing <= 0 && pieces.hold(sizes)) {
      return Duration(static_cast<int64_t>(std::min(ending.at_ns, kLongestNs)));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Duration> estimate_wait(const Snapshot& now, JobId id) {
  const auto asked = std::find_if(now.jobs.begin(), now.jobs.end(),
                                  [id](const JobStatus& job) { return job.id == id; });
  if (asked == now.jobs.end() || !waits(*asked)) return std::nullopt;
  if (asked->reason.position > kLastEstimatedPosition) return std::nullopt;
  return wait_at(now, look_at(now), asked->reason.position);
}

std::map<JobId, Duration> estimate_waits(const Snapshot& now) {
  const Outlook seen = look_at(now);
  std::map<JobId, Duration> known;
  for (const auto& [position, job] : seen.queue) {
    if (position > kLastEstimatedPosition) break;
    if (const auto wait = wait_at(now, seen, position)) known.emplace(job->id, *wait);
  }
  return known;
}

}  // namespace laneway::lanes
