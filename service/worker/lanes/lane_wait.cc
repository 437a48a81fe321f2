#include "service/worker/lanes/lane_wait.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "adaptor/scope/thread_team.h"
#include "base/check.h"
#include "service/worker/common/thread_team.h"

namespace laneway::service {

void LaneWait::follow(std::shared_ptr<WorkerJob> job) {
  job_ = std::move(job);
  turn_is_near_ = false;
  for (const auto& link : job_->links) add(*link);
}

void LaneWait::unfollow(bool others_wait) {
  turn_is_near_ = others_wait;
  for (const auto& link : job_->links) poll_->remove(link->ring->wake_descriptor());
  job_.reset();
}

void LaneWait::add(const Link& link) {
  if (poll_ == nullptr) poll_ = EventPoll::make().value();
  const Status added = poll_->add(link.ring->wake_descriptor(), link.key);
  LW_CHECK(added.ok(), "a link's descriptor can be waited for");
}

void LaneWait::drop(const Link& link) {
  poll_->remove(link.ring->wake_descriptor());
  arrived();
}

void LaneWait::arrived() {
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  wake_.notify_one();
  if (polling_) poll_->wake();
}

void LaneWait::wait(bool for_requests, std::optional<Duration> most) {
  BookkeepingMutex& mutex = context_.mutex;
  if (!for_requests || job_->links.empty()) {
    most ? static_cast<void>(mutex.wait_for(wake_, *most)) : mutex.wait(wake_);
    return;
  }
  if (!most) {
    // The mutex was released meanwhile: when the turn is another job's, the caller looks again.
    const std::shared_ptr<WorkerJob> job = job_;
    if (spin() || job_ != job || job_->links.empty()) return;
  }
  bool ready = false;
  for (const auto& link : job_->links) ready = !link->ring->arm() || ready;
  if (!ready) {
    polling_ = true;
    mutex.unlock();
    most ? poll_->wait_for(*most) : poll_->wait();
    mutex.lock();
    polling_ = false;
    if (!most) spin_.slept();
  }
  // The turn may be another job's by now; if there is none, its links are the watcher's.
  if (job_ == nullptr) return;
  for (const auto& link : job_->links) link->ring->disarm();
}

bool LaneWait::spin() {
  const uint64_t arrivals = arrivals_.load(std::memory_order_relaxed);
  // A client must run to send something.
  AwaitedThreads others{.threads = context_.computing_threads + 1, .cores = 0};
  watched_ = job_->links;
  for (const auto& link : watched_) others.cores |= link->ring->client_cores();
  context_.mutex.unlock();
  const bool came = spin_.spin(others, TimePoint::never(), [this, arrivals] {
    if (arrivals_.load(std::memory_order_relaxed) != arrivals) return true;
    return std::any_of(watched_.begin(), watched_.end(),
                       [](const auto& link) { return link->ring->ready(); });
  });
  watched_.clear();  // a link that was dropped meanwhile is destroyed here, without the mutex
  context_.mutex.lock();
  return came || arrivals_.load(std::memory_order_relaxed) != arrivals;
}

bool LaneWait::look_for_turn() {
  const uint64_t arrivals = arrivals_.load(std::memory_order_relaxed);
  const auto has_arrived = [this, arrivals] {
    return arrivals_.load(std::memory_order_relaxed) != arrivals;
  };
  context_.mutex.unlock();
  const TimePoint until = context_.clock.now() + kLooksForTurn;
  while (context_.events.carry_out_what_came() && !has_arrived() && context_.clock.now() < until) {
    std::this_thread::yield();  // whoever answers may have been woken on this core
  }
  context_.mutex.lock();
  return has_arrived();
}

void LaneWait::rest(bool for_requests, std::optional<Duration> longest) {
  const bool turn_is_near = std::exchange(turn_is_near_, false);
  if (turn_is_near && job_ == nullptr && look_for_turn()) return;
  if (!keeps_team()) return wait(for_requests, longest);
  const Duration idle = context_.clock.now() - *team_used_;
  const std::optional<Duration> most = team_rest();
  if (most && idle >= *most) return end_team();
  std::optional<Duration> left = longest;
  if (most) left = std::min(left.value_or(*most), *most - idle);
  if (job_ && idle < kTeamRestBeside) {
    // A client that waits for each answer is back before anybody need be woken because of it.
    left = std::min(left.value_or(kTeamRestBeside), kTeamRestBeside - idle);
  } else {
    context_.teams.kept(lane_, *this);
  }
  wait(for_requests, left);
}

void LaneWait::team_used() {
  team_used_ = context_.clock.now();
  context_.teams.ended(lane_);  // it is in use
}

std::optional<Duration> LaneWait::team_rest() const {
  if (context_.teams.others_compute(lane_)) return job_ ? kTeamRestBeside : Duration();
  return context_.shares_process ? std::optional(kTeamRestShared) : std::nullopt;
}

void LaneWait::end_team() {
  if (!keeps_team()) return;
  team_used_.reset();
  context_.teams.ended(lane_);
  context_.mutex.unlock();
  adaptor::end_thread_team();
  context_.mutex.lock();
}

}  // namespace laneway::service
