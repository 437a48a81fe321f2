// CoreLoop: events posted from many threads are handled by one at a time and none is lost; those
// that wait are handled together; posting from within the sink queues instead of recursing;
// wake-ups are fired by the loop's own thread, which handles what is left to it; an observer is
// told all that a core is.
#include "lanes/core/core_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "policies/fifo.h"

namespace laneway::lanes {
namespace {

std::unique_ptr<Scheduler> make_scheduler(uint32_t max_lanes = 4) {
  SchedulerConfig config;
  config.capacity = mib(64);
  config.max_lanes = max_lanes;
  config.budget = {.iterations = 0, .slice = microseconds(100)};
  return std::make_unique<Scheduler>(config, std::make_unique<policies::Fifo>());
}

JobOffered offer(uint64_t id, Bytes bytes = kib(64)) {
  JobOffered job;
  job.job = JobId(id);
  job.session = SessionId(1);
  job.persistent = bytes;
  job.ephemeral = bytes;
  return job;
}

// A turn that ran one iteration and has more to run.
TurnEnded one_more(TurnId turn) {
  TurnEnded event;
  event.turn = turn;
  event.end = TurnEnd::budget;
  event.iterations = 1;
  event.more_ready = true;
  return event;
}

// Does with each action what the test says, and notices when it is entered twice.
class Sink final : public ActionSink {
 public:
  void carry_out(const std::vector<Action>& actions) override {
    EXPECT_FALSE(inside_.exchange(true)) << "two threads, or recursion";
    for (const Action& action : actions) on_action(action);
    inside_ = false;
  }
  std::function<void(const Action&)> on_action = [](const Action&) {};

 private:
  std::atomic<bool> inside_{false};
};

TEST(CoreLoop, PostsFromWithinTheSinkAreQueuedNotRecursed) {
  ManualClock clock;
  Sink sink;
  CoreLoop loop(make_scheduler(), clock, sink, CoreLoop::Timer::cranked);
  uint64_t grants = 0;
  sink.on_action = [&](const Action& action) {
    if (const auto* place = std::get_if<PlaceImage>(&action)) loop.post(ImagePlaced{place->job});
    const auto* grant = std::get_if<GrantTurn>(&action);
    if (grant == nullptr || ++grants == 100) return;
    loop.post(one_more(grant->turn.id));
  };
  loop.post(offer(1));
  loop.post(WorkReady{JobId(1)});
  EXPECT_EQ(grants, 100u) << "everything was handled before post returned";
  const uint64_t iterations =
      loop.read([](const Scheduler& core) { return core.snapshot().jobs.at(0).iterations; });
  EXPECT_EQ(iterations, 99u);
}

// The action waits for what the thread that leaves the event does afterwards.
TEST(CoreLoop, WhatIsLeftIsHandledByTheTimersThread) {
  const SteadyClock clock;
  Sink sink;
  CoreLoop loop(make_scheduler(), clock, sink);
  std::promise<void> left;
  std::future<void> waited = left.get_future();
  std::atomic<std::thread::id> by;
  sink.on_action = [&](const Action& action) {
    if (!std::holds_alternative<PlaceImage>(action)) return;
    waited.wait();
    by = std::this_thread::get_id();
  };
  loop.leave(offer(1));
  left.set_value();
  EXPECT_TRUE(loop.wait_handled(seconds(60)));
  EXPECT_NE(by.load(), std::this_thread::get_id());
  EXPECT_NE(by.load(), std::thread::id());
}

TEST(CoreLoop, WhatIsPostedMeanwhileIsHandledTogether) {
  ManualClock clock;
  Sink sink;
  // In one lane, so that a turn shows who was there.
  CoreLoop loop(make_scheduler(1), clock, sink, CoreLoop::Timer::cranked);
  for (const uint64_t id : {1, 2, 3}) {
    loop.post(offer(id));
    loop.post(ImagePlaced{JobId(id)});
  }
  std::vector<JobId> granted;
  sink.on_action = [&](const Action& action) {
    const auto* grant = std::get_if<GrantTurn>(&action);
    if (grant == nullptr) return;
    granted.push_back(grant->turn.job);
    if (granted.size() > 1) return;
    loop.post(WorkReady{JobId(3)});
    loop.post(WorkReady{JobId(2)});
    TurnEnded idle = one_more(grant->turn.id);
    idle.more_ready = false;
    loop.post(idle);
  };
  loop.post(WorkReady{JobId(1)});
  EXPECT_EQ(granted, (std::vector<JobId>{JobId(1), JobId(2)}));
  loop.post(std::vector<Event>{JobEnded{JobId(1)}, JobEnded{JobId(3)}});
  loop.post(std::vector<Event>{});
  EXPECT_EQ(loop.read([](const Scheduler& core) { return core.snapshot().jobs.size(); }), 1u);
}

TEST(CoreLoop, MoreThanItTakesAtOnceAreHandledAllTheSame) {
  ManualClock clock;
  Sink sink;
  CoreLoop loop(make_scheduler(), clock, sink, CoreLoop::Timer::cranked);
  std::vector<Event> offers;
  for (uint64_t id = 1; id <= 2'500; ++id) offers.emplace_back(offer(id, kib(4)));
  loop.post(std::move(offers));
  EXPECT_TRUE(loop.wait_handled(Duration()));
  EXPECT_EQ(loop.read([](const Scheduler& core) { return core.snapshot().jobs.size(); }), 2'500u);
}

TEST(CoreLoop, ManyThreadsPostAndReadAndNothingIsLost) {
  SteadyClock clock;
  Sink sink;
  CoreLoop loop(make_scheduler(), clock, sink);
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kJobs = 100;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&loop, t] {
      for (uint64_t i = 0; i < kJobs; ++i) {
        loop.post(offer(1 + t * kJobs + i, kib(4)));
        loop.read([](const Scheduler& core) { return core.pool().claimed(); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A thread may have left its event to another one that was draining; that one has returned too.
  const size_t jobs = loop.read([](const Scheduler& core) { return core.snapshot().jobs.size(); });
  EXPECT_EQ(jobs, kThreads * kJobs);
}

TEST(CoreLoop, WhoWaitsKnowsWhatFollowedThoughAnotherThreadWasAtIt) {
  SteadyClock clock;
  Sink sink;
  CoreLoop loop(make_scheduler(), clock, sink, CoreLoop::Timer::cranked);
  std::atomic<bool> entered{false};
  std::atomic<bool> goes_on{false};
  int placed = 0;
  sink.on_action = [&](const Action& action) {
    if (!std::holds_alternative<PlaceImage>(action)) return;
    entered = true;
    while (!goes_on) std::this_thread::yield();
    ++placed;
  };
  std::thread other([&loop] { loop.post(offer(1)); });
  while (!entered) std::this_thread::yield();
  loop.post(offer(2));  // only queued: the other thread is inside
  EXPECT_FALSE(loop.wait_handled(milliseconds(1)));
  goes_on = true;
  EXPECT_TRUE(loop.wait_handled(seconds(60)));
  EXPECT_EQ(placed, 2);
  other.join();
}

// One lane, two jobs; the first one's bounded turn never ends by itself.
class TwoInOneLane {
 public:
  TwoInOneLane(CoreLoop& loop, Sink& sink, std::function<void(TurnId)> on_bounded_recall) {
    sink.on_action = [this, &loop, on_bounded_recall](const Action& action) {
      if (const auto* place = std::get_if<PlaceImage>(&action)) loop.post(ImagePlaced{place->job});
      if (const auto* grant = std::get_if<GrantTurn>(&action)) {
        bounded_ = grant->turn.envelope.budget.slice > Duration(0);
      }
      const auto* recall = std::get_if<RecallTurn>(&action);
      if (recall == nullptr) return;
      if (bounded_) return on_bounded_recall(recall->turn);
      loop.post(one_more(recall->turn));
    };
    for (uint64_t id : {1, 2}) {
      loop.post(offer(id));
      loop.post(WorkReady{JobId(id)});
    }
  }

 private:
  bool bounded_ = false;
};

struct Observed final : CoreObserver {
  void handled(TimePoint now, std::span<const Event> events,
               std::span<const Action> actions) override {
    calls.push_back({now, events.size(), actions.size()});
  }
  void policy_set(const std::string& policy) override { calls.push_back({{}, 0, 0, policy}); }

  struct Call {
    TimePoint now;
    size_t events = 0;
    size_t actions = 0;
    std::string policy = {};
    friend bool operator==(const Call&, const Call&) = default;
  };
  std::vector<Call> calls;
};

TEST(CoreLoop, AnObserverIsToldEachCallBeforeItsActionsAreCarriedOut) {
  ManualClock clock;
  Sink sink;
  CoreLoop loop(make_scheduler(1), clock, sink, CoreLoop::Timer::cranked);
  Observed observed;
  uint64_t actions = 0;
  sink.on_action = [&](const Action& action) {
    ++actions;
    uint64_t told = 0;
    for (const Observed::Call& call : observed.calls) told += call.actions;
    EXPECT_LE(actions, told);
    if (const auto* place = std::get_if<PlaceImage>(&action)) loop.post(ImagePlaced{place->job});
  };
  loop.observe(&observed);
  clock.advance(milliseconds(3));
  loop.post(std::vector<Event>{offer(1), WorkReady{JobId(1)}});
  ASSERT_EQ(observed.calls.size(), 2u) << "the offer, and its image that was placed";
  EXPECT_EQ(observed.calls[0].now, TimePoint() + milliseconds(3));
  EXPECT_EQ(observed.calls[0].events, 2u);
  EXPECT_EQ(observed.calls[1].events, 1u);
  EXPECT_EQ(observed.calls[0].actions + observed.calls[1].actions, actions);
  loop.set_policy(std::make_unique<policies::Fifo>(), "fifo:by=job");
  ASSERT_EQ(observed.calls.size(), 4u) << "then it is asked";
  EXPECT_EQ(observed.calls[2], (Observed::Call{{}, 0, 0, "fifo:by=job"}));
  EXPECT_EQ(observed.calls[3].events, 1u);
  loop.observe(nullptr);
  sink.on_action = [](const Action&) {};
  loop.post(offer(2));
  EXPECT_EQ(observed.calls.size(), 4u);
}

TEST(CoreLoop, ACrankedOwnerFiresWhatIsDue) {
  ManualClock clock;
  Sink sink;
  CoreLoop loop(make_scheduler(1), clock, sink, CoreLoop::Timer::cranked);
  int recalls = 0;
  const TwoInOneLane scene(loop, sink, [&recalls](TurnId) { ++recalls; });
  EXPECT_EQ(loop.next_wakeup(), TimePoint(microseconds(200).ns()));
  clock.advance(microseconds(199));
  loop.fire_due();
  EXPECT_EQ(recalls, 0);
  clock.advance(microseconds(1));
  loop.fire_due();
  EXPECT_EQ(recalls, 1);
  EXPECT_EQ(loop.next_wakeup(), TimePoint::never());
}

TEST(CoreLoop, ItsOwnThreadFiresWhatIsDue) {
  SteadyClock clock;
  Sink sink;
  Mutex mutex;
  CondVar fired;
  bool recalled = false;
  CoreLoop loop(make_scheduler(1), clock, sink);
  const TwoInOneLane scene(loop, sink, [&](TurnId) {
    MutexLock lock(mutex);
    recalled = true;
    fired.notify_one();
  });
  MutexLock lock(mutex);
  while (!recalled) fired.wait(mutex);
}

}  // namespace
}  // namespace laneway::lanes
