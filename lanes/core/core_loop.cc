#include "lanes/core/core_loop.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace laneway::lanes {
namespace {

// More are left for the next time, so that whoever reads the core meanwhile need not wait for long.
constexpr size_t kMostAtOnce = 1024;

}  // namespace

CoreLoop::CoreLoop(std::unique_ptr<Scheduler> scheduler, const Clock& clock, ActionSink& sink,
                   Timer timer)
    : clock_(clock), sink_(sink), scheduler_(std::move(scheduler)) {
  if (timer == Timer::own_thread) timer_ = std::thread([this] { run_timer(); });
}

CoreLoop::~CoreLoop() {
  {
    MutexLock lock(timer_mutex_);
    stopping_ = true;
    timer_changed_.notify_one();
  }
  if (timer_.joinable()) timer_.join();
}

void CoreLoop::post(Event event) {
  {
    MutexLock lock(queue_mutex_);
    queue(std::move(event));
    if (std::exchange(draining_, true)) return;
  }
  drain();
}

void CoreLoop::post(std::vector<Event> events) {
  {
    MutexLock lock(queue_mutex_);
    for (Event& event : events) queue(std::move(event));
    if (std::exchange(draining_, true)) return;
  }
  drain();
}

void CoreLoop::leave(Event event) {
  LW_CHECK(timer_.joinable(), "nobody would handle what is left");
  {
    MutexLock lock(queue_mutex_);
    queue(std::move(event));
    if (draining_) return;
  }
  MutexLock lock(timer_mutex_);
  wakeup_ = TimePoint();
  timer_changed_.notify_one();
}

void CoreLoop::queue(Event event) {
  LW_CHECK(queue_.size() < limits::kMaxPostedEvents, "too many events wait for the core");
  queue_.push_back(std::move(event));
  ++posted_;
}

bool CoreLoop::wait_handled(Duration most) {
  const TimePoint end = clock_.now() + most;
  MutexLock lock(queue_mutex_);
  const uint64_t mine = posted_;
  ++waiting_;
  while (handled_ < mine && clock_.now() < end) {
    handled_more_.wait_for(queue_mutex_, end - clock_.now());
  }
  --waiting_;
  return handled_ >= mine;
}

void CoreLoop::drain() {
  std::vector<Event> events;
  std::vector<Action> actions;
  while (true) {
    {
      MutexLock lock(queue_mutex_);
      handled_ += events.size();
      if (waiting_ > 0) handled_more_.notify_all();
      if (queue_.empty()) {
        draining_ = false;
        return;
      }
      const auto last =
          queue_.begin() + static_cast<ptrdiff_t>(std::min(queue_.size(), kMostAtOnce));
      events.assign(std::move_iterator(queue_.begin()), std::move_iterator(last));
      queue_.erase(queue_.begin(), last);
    }
    handle(events, &actions);
    if (!actions.empty()) sink_.carry_out(actions);
  }
}

void CoreLoop::handle(std::span<const Event> events, std::vector<Action>* actions) {
  TimePoint wakeup;
  {
    MutexLock lock(core_mutex_);
    const TimePoint now = clock_.now();
    *actions = scheduler_->handle(now, events);
    if (observer_ != nullptr) observer_->handled(now, events, *actions);
    wakeup = scheduler_->next_wakeup();
  }
  MutexLock lock(timer_mutex_);
  // Later is no news: the thread looks again when it wakes up.
  const bool sooner = wakeup < wakeup_;
  wakeup_ = wakeup;
  if (sooner) timer_changed_.notify_one();
}

void CoreLoop::set_policy(std::unique_ptr<policies::Policy> policy, const std::string& text) {
  {
    MutexLock lock(core_mutex_);
    scheduler_->set_policy(std::move(policy));
    if (observer_ != nullptr) observer_->policy_set(text);
  }
  post(TimerFired{});  // lets the core ask it at once
}

void CoreLoop::observe(CoreObserver* observer) {
  MutexLock lock(core_mutex_);
  observer_ = observer;
}

TimePoint CoreLoop::next_wakeup() {
  MutexLock lock(core_mutex_);
  return scheduler_->next_wakeup();
}

void CoreLoop::fire_due() {
  if (next_wakeup() <= clock_.now()) post(TimerFired{});
}

void CoreLoop::run_timer() {
  while (true) {
    {
      MutexLock lock(timer_mutex_);
      if (stopping_) return;
      if (wakeup_ == TimePoint::never()) {
        timer_changed_.wait(timer_mutex_);
        continue;
      }
      const Duration left = wakeup_ - clock_.now();
      if (left > Duration(0)) {
        timer_changed_.wait_for(timer_mutex_, left);
        continue;
      }
      // Asked for again by whoever handles the event.
      wakeup_ = TimePoint::never();
    }
    post(TimerFired{});
  }
}

}  // namespace laneway::lanes
