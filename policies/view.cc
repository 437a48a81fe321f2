#include "policies/view.h"

#include <algorithm>

#include "base/check.h"

namespace laneway::policies {

namespace {

constexpr auto arrived_earlier = [](const JobView* a, const JobView* b) {
  return a->arrival < b->arrival;
};

void insert(std::vector<const JobView*>& list, const JobView& job) {
  const auto place = std::lower_bound(list.begin(), list.end(), &job, arrived_earlier);
  LW_CHECK(place == list.end() || *place != &job, "job is listed already");
  list.insert(place, &job);
}

void erase(std::vector<const JobView*>& list, const JobView& job) {
  // Of a few pointers, without a look at what they point to.
  const auto place = std::find(list.begin(), list.end(), &job);
  LW_CHECK(place != list.end(), "job is not listed");
  list.erase(place);
}

}  // namespace

Duration JobView::mean_iteration_time() const {
  if (const Duration lately = counted_time.mean(); lately > Duration()) return lately;
  if (iterations == 0 || busy <= Duration()) {
    return iteration_estimate > Duration() ? iteration_estimate : options.iteration_time;
  }
  return Duration(busy.ns() / static_cast<int64_t>(iterations));
}

void JobView::update_remaining() {
  const int64_t mean_ns = mean_iteration_time().ns();
  const uint64_t total = options.total_iterations;
  if (total <= counted || mean_ns <= 0) {
    remaining_ns = kUnknown;
    return;
  }
  // Counts come from clients: the product saturates just below "unknown".
  const bool overflows = __builtin_mul_overflow(total - counted, mean_ns, &remaining_ns);
  if (overflows || remaining_ns == kUnknown) remaining_ns = kUnknown - 1;
}

View::View(uint32_t max_lanes) : lanes_(max_lanes) {}

LaneView& View::slot(LaneId id) {
  LW_CHECK(id.valid() && id.value() <= lanes_.size(), "no such lane slot");
  return lanes_[id.value() - 1];
}

std::ptrdiff_t View::place_of(uint64_t queue) const {
  const auto place = std::lower_bound(
      waiting_.begin(), waiting_.end(), queue,
      [](const JobView* one, uint64_t its_queue) { return one->queue < its_queue; });
  return place - waiting_.begin();
}

void View::add_waiting(const JobView& job) {
  const auto place = waiting_.begin() + place_of(job.queue);
  LW_CHECK(place == waiting_.end() || (*place)->queue != job.queue, "job is listed already");
  waiting_.insert(place, &job);
}

void View::remove_waiting(const JobView& job) {
  const auto place = waiting_.begin() + place_of(job.queue);
  LW_CHECK(place != waiting_.end() && *place == &job, "job is not listed");
  waiting_.erase(place);
}

void View::open_lane(LaneId id, Bytes region) {
  LaneView& lane = slot(id);
  LW_CHECK(!lane.id.valid(), "lane is open already");
  lane.id = id;
  lane.region = region;
  ++open_lanes_;
}

void View::close_lane(LaneId id) {
  LaneView& lane = slot(id);
  LW_CHECK(lane.id.valid() && lane.jobs.empty(), "lane is not open, or not empty");
  lane = LaneView{};
  --open_lanes_;
}

void View::set_region(LaneId id, Bytes region) { slot(id).region = region; }
void View::set_running(LaneId id, JobId job) { slot(id).running = job; }
void View::add_to_lane(const JobView& job) { insert(slot(job.lane).jobs, job); }
void View::remove_from_lane(const JobView& job) { erase(slot(job.lane).jobs, job); }
void View::add_ready(const JobView& job) { insert(slot(job.lane).ready, job); }
void View::remove_ready(const JobView& job) { erase(slot(job.lane).ready, job); }

}  // namespace laneway::policies
