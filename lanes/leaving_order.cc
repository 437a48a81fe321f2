#include "lanes/leaving_order.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lanes/may_leave.h"

namespace laneway::lanes {
namespace {

// Of the keys that are at least `least`, which a visit raises, the greatest ones alone, as a rule:
// all of them only if none of these was `found`.
template <class Found, class Visit>
void visit_greatest_first(const CoarseKeys& keys, int32_t& least, const Found& found,
                          const Visit& visit) {
  const int32_t all = least;
  least = std::max(all, keys.greatest());
  keys.visit_from(least, visit);
  if (found() || least == all) return;
  least = all;
  keys.visit_from(least, visit);
}

}  // namespace

LeavingOrder::Image LeavingOrder::image_of(const CoreState& core, const CheckedPolicy& policy,
                                           const Job& job) {
  if (!job.view.lane.valid()) return {};
  Image image{.job = &job,
              .leaver = {.rank = policy.rank(core, job.view),
                         .placed_at = job.view.placed_at,
                         .used_at = job.view.used_at,
                         .idle = is_idle(job),
                         .clean = job.clean},
              .priority = job.view.options.priority};
  image.has_spare_copy = job.clean && job.state() != JobState::restoring &&
                         job.state() != JobState::evicting && !job.arriving && !job.leaves &&
                         !job.saving;
  if (could_leave(job) && core.outside.could_ever_hold(job.view.persistent)) {
    image.from = may_leave_from(core, job, image.leaver.idle);
  }
  return image;
}

size_t LeavingOrder::place_of(uint64_t arrival) const {
  // A binary search without a branch that depends on what is found: such a branch is guessed wrong
  // half of the times, and that is most of the cost.
  size_t place = 0;
  for (size_t left = arrivals_.size(); left > 0; left /= 2) {
    const size_t step = (left + 1) / 2;
    place += step * static_cast<size_t>(arrivals_[place + step - 1] < arrival);
  }
  return place;
}

void LeavingOrder::put(const CoreState& core, const CheckedPolicy& policy, const Job& job) {
  const uint64_t arrival = job.view.arrival;
  uint32_t& hint = hints_[arrival % kHints];
  size_t place = hint;
  if (!has(place, arrival)) place = place_of(arrival);
  if (!has(place, arrival)) {
    if (!job.view.lane.valid()) return;
    const auto at = static_cast<std::ptrdiff_t>(place);
    arrivals_.insert(arrivals_.begin() + at, arrival);
    images_.emplace(images_.begin() + at);
    ranks_.insert(place);
    used_at_.insert(place);
  }
  hint = static_cast<uint32_t>(place);
  images_[place] = image_of(core, policy, job);
  show(place);
}

int32_t LeavingOrder::coarse(TimePoint time) const {
  // A millisecond is left, and 26 days in 32 bits. After these, until all is made anew, each is the
  // last and is looked at one by one.
  constexpr int kDropped = 20;  // bits
  return static_cast<int32_t>(
      std::clamp<int64_t>((time - base_).ns() >> kDropped, CoarseKeys::kNone + 1, INT32_MAX));
}

void LeavingOrder::show(size_t place) {
  const Image& image = images_[place];
  const int64_t rank = image.leaver.idle ? INT64_MAX : image.leaver.rank;
  const bool leaves = image.from != TimePoint::never();
  ranks_.set(place, leaves ? coarse_key(rank) : CoarseKeys::kNone);
  used_at_.set(place, image.has_spare_copy ? coarse(image.leaver.used_at) : CoarseKeys::kNone);
}

void LeavingOrder::erase(uint64_t arrival) {
  const size_t place = place_of(arrival);
  if (!has(place, arrival)) return;
  const auto at = static_cast<std::ptrdiff_t>(place);
  arrivals_.erase(arrivals_.begin() + at);
  images_.erase(images_.begin() + at);
  ranks_.erase(place);
  used_at_.erase(place);
}

void LeavingOrder::refresh(CoreState& core, const CheckedPolicy& policy) {
  const JobTable& jobs = core.jobs;
  const Bytes capacity = core.view.pool().capacity;
  if (jobs.all_noted() || std::exchange(capacity_, capacity) != capacity) {
    *this = {};
    base_ = core.now;
    capacity_ = capacity;
    for (const auto& [id, job] : jobs) put(core, policy, job);
  } else {
    for (const JobTable::Noted& noted : jobs.noted()) {
      const Job* const job = jobs.find(noted.job);
      const bool same = job != nullptr && job->view.arrival == noted.arrival;
      same ? put(core, policy, *job) : erase(noted.arrival);
    }
  }
  core.jobs.forget_noted();
}

const Job* LeavingOrder::first(TimePoint now, const Job& wants, int64_t rank) const {
  policies::FirstToLeave leaves(now, rank);
  const Job* first = nullptr;
  int32_t least = coarse_key(leaves.least_rank());
  const auto visit = [&](size_t place) {
    const Image& image = images_[place];
    if (image.from > now || image.job == &wants) return;
    const bool urgent = !image.leaver.idle && image.priority > wants.view.options.priority;
    if (urgent || !leaves.is_first(image.leaver)) return;
    first = image.job;
    least = coarse_key(leaves.least_rank());
  };
  visit_greatest_first(
      ranks_, least, [&] { return first != nullptr; }, visit);
  return first;
}

const Job* LeavingOrder::last_used_with_copy(std::span<const JobId> leaving) const {
  const Job* last = nullptr;
  TimePoint used_at = TimePoint(INT64_MIN);
  int32_t least = CoarseKeys::kNone;
  const auto visit = [&](size_t place) {
    const Image& image = images_[place];
    if (image.leaver.used_at < used_at) return;
    const JobId id = image.job->view.id;
    if (last != nullptr && image.leaver.used_at == used_at && last->view.id < id) return;
    if (std::find(leaving.begin(), leaving.end(), id) != leaving.end()) return;
    last = image.job;
    used_at = image.leaver.used_at;
    least = used_at_.at(place);
  };
  visit_greatest_first(
      used_at_, least, [&] { return last != nullptr; }, visit);
  return last;
}

void LeavingOrder::check(const CoreState& core, const CheckedPolicy& policy) const {
  const JobTable& jobs = core.jobs;
  if (jobs.all_noted() || capacity_ != core.view.pool().capacity) return;
  size_t unchanged = 0;
  for (const auto& [id, job] : jobs) {
    if (job.noted) continue;
    const size_t place = place_of(job.view.arrival);
    const Image kept = has(place, job.view.arrival) ? images_[place] : Image();
    LW_CHECK(kept == image_of(core, policy, job), "a job changed and was not noted");
    ++unchanged;
  }
  LW_CHECK(images_.size() <= unchanged + jobs.noted().size(), "a job is gone and was not noted");
}

}  // namespace laneway::lanes
