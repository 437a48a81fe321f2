// CoreLoop: the thread-safe front of the scheduler at the edge. Any thread may post events. A
// thread that posts while no thread drains the queue drains it, so one thread at a time drives the
// core. It takes what is queued as the events of one instant, in the order in which they were
// posted. Actions go to the sink outside of every lock, one instant's actions after the other's. A
// post from within the sink only queues: nothing recurses, and nothing acts inside a callback.
//
// A thread of the loop fires the core's wake-ups (turns to recall), unless the owner cranks them
// (tests with a manual clock, the simulator).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "lanes/core/scheduler.h"

namespace laneway::lanes {

// Carries out the actions of the core.
class ActionSink {
 public:
  virtual ~ActionSink() = default;
  // At most one thread at a time calls it. It may post; it must not wait for the actions of what it
  // posts.
  virtual void carry_out(const std::vector<Action>& actions) = 0;
};

// Is told everything that a core is told, and what it decides. Whoever tells another core the same
// gets the same decisions.
class CoreObserver {
 public:
  virtual ~CoreObserver() = default;
  // One call of the core, before its actions are carried out. CoreLoop calls this and policy_set
  // while it holds the core: the observer must be quick, and must neither post nor read.
  virtual void handled(TimePoint now, std::span<const Event> events,
                       std::span<const Action> actions) = 0;
  // The policy of this text answers from the next call on.
  virtual void policy_set(const std::string& policy) = 0;
};

class CoreLoop {
 public:
  enum class Timer : uint8_t { own_thread, cranked };

  // `clock` and `sink` must outlive the loop.
  CoreLoop(std::unique_ptr<Scheduler> scheduler, const Clock& clock, ActionSink& sink,
           Timer timer = Timer::own_thread);
  // Handles the events that are still queued. Requires: no thread posts any more.
  ~CoreLoop();
  CoreLoop(const CoreLoop&) = delete;
  CoreLoop& operator=(const CoreLoop&) = delete;

  // Queues the events. If no other thread drains the queue, handles these, and those that come
  // meanwhile, before it returns. More than limits::kMaxPostedEvents waiting events are a bug of
  // the caller: every source has a bound of its own far below.
  void post(std::vector<Event> events) LW_EXCLUDES(queue_mutex_, core_mutex_);
  void post(Event event) LW_EXCLUDES(queue_mutex_, core_mutex_);

  // Queues the event and handles nothing: the timer's thread does, unless another one is at it. For
  // one whom the actions that follow may have to wait for. Requires: the timer has its own thread.
  void leave(Event event) LW_EXCLUDES(queue_mutex_, timer_mutex_);

  // Waits, `most` at the longest, until everything that was posted before was handled and its
  // actions were carried out, by whichever thread: what follows from one's own post is known then.
  // False when the time was over first. Not from within the sink, which would wait for itself.
  bool wait_handled(Duration most) LW_EXCLUDES(queue_mutex_, core_mutex_);

  // Runs `fn(const Scheduler&)` while no event is handled, for status. Requires: `fn` does not
  // post.
  template <class Function>
  auto read(Function fn) LW_EXCLUDES(core_mutex_) {
    MutexLock lock(core_mutex_);
    return fn(std::as_const(*scheduler_));
  }

  // `text` is what the policy was made of, for the observer.
  void set_policy(std::unique_ptr<policies::Policy> policy, const std::string& text)
      LW_EXCLUDES(queue_mutex_, core_mutex_);

  // Is told from the next call of the core on, and must outlive the loop; null: nobody is.
  void observe(CoreObserver* observer) LW_EXCLUDES(core_mutex_);

  // The time at which TimerFired is due, for owners that crank.
  TimePoint next_wakeup() LW_EXCLUDES(core_mutex_);
  // Posts TimerFired if it is due.
  void fire_due() LW_EXCLUDES(queue_mutex_, core_mutex_);

 private:
  void queue(Event event) LW_REQUIRES(queue_mutex_);
  void drain();
  // Lets the core handle events; the actions go to *actions.
  void handle(std::span<const Event> events, std::vector<Action>* actions) LW_EXCLUDES(core_mutex_);
  void run_timer() LW_EXCLUDES(timer_mutex_);

  const Clock& clock_;
  ActionSink& sink_;

  Mutex queue_mutex_;
  std::deque<Event> queue_ LW_GUARDED_BY(queue_mutex_);
  bool draining_ LW_GUARDED_BY(queue_mutex_) = false;
  uint64_t posted_ LW_GUARDED_BY(queue_mutex_) = 0;
  uint64_t handled_ LW_GUARDED_BY(queue_mutex_) = 0;  // with their actions
  int waiting_ LW_GUARDED_BY(queue_mutex_) = 0;       // in wait_handled
  CondVar handled_more_;

  Mutex core_mutex_;
  std::unique_ptr<Scheduler> scheduler_ LW_GUARDED_BY(core_mutex_);
  CoreObserver* observer_ LW_GUARDED_BY(core_mutex_) = nullptr;

  Mutex timer_mutex_;
  CondVar timer_changed_;
  TimePoint wakeup_ LW_GUARDED_BY(timer_mutex_) = TimePoint::never();
  bool stopping_ LW_GUARDED_BY(timer_mutex_) = false;
  std::thread timer_;
};

}  // namespace laneway::lanes
